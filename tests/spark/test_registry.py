"""The registry's client against a registry, and what a process keeps of it."""

import json
import socket
import ssl
import threading
from base64 import b64encode
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from traceback import walk_tb

import pytest

from kwire.schemas.cache import MAX_MISSES, RECHECK_S, SchemaCache
from kwire.schemas.registry import (
    NoSuchSchema,
    Reference,
    RegisteredSchema,
    Registry,
    RegistryAway,
    RegistryError,
    RegistryRefuses,
    RegistrySettings,
)
from kwire.spark.decode.options import options_of
from kwire.spark.decode.subjects import AWAY_S, Subjects, Version
from kwire.spark.settings import Decode, WrongSetting
from kwire.testing.schema_registry import SchemaRegistry
from tests.support.certificates import Authority

RECORD = '{"type":"record","name":"Order","namespace":"a","fields":[{"name":"id","type":"long"}]}'
"""As a registry answers it."""


@pytest.fixture
def server() -> Iterator[SchemaRegistry]:
    """A registry."""
    with SchemaRegistry() as running:
        yield running


@pytest.fixture
def client(server: SchemaRegistry) -> Iterator[Registry]:
    """Its client, which doesn't wait between tries."""
    registry = Registry(RegistrySettings(server.url, attempts=2, pause_s=0.0))
    yield registry
    registry.close()


def test_a_port_is_not_given_to_a_second_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client of this process may still know what the first one's ids mean."""
    with SchemaRegistry() as first:
        address = first.url
    offered = [int(address.rpartition(":")[2])]
    bind = socket.socket.bind

    def bind_as_the_system_may(bound: socket.socket, wanted: tuple[str, int]) -> None:
        """Give the port that was free before, once."""
        bind(bound, (wanted[0], offered.pop()) if offered and not wanted[1] else wanted)

    monkeypatch.setattr(socket.socket, "bind", bind_as_the_system_may)
    with SchemaRegistry() as second:
        assert not offered
        assert second.url != address
        Registry(RegistrySettings(second.url)).subjects()
        second.stop()
        second.start()  # the same one may have its own port again


def test_schemas_by_subject_version_and_id(server: SchemaRegistry, client: Registry) -> None:
    """The same schema has one id; subjects with odd names work too."""
    server.set_compatibility("NONE")
    first = client.register("orders-value", RECORD)
    assert client.register("orders-value", RECORD.replace(",", " ,\n")) == first
    assert client.register("a/b c-value", RECORD) == first
    newer = client.register("orders-value", '"string"')
    assert client.subjects() == ["a/b c-value", "orders-value"]
    assert client.versions("orders-value") == [1, 2]
    found = client.newest("orders-value")
    assert (found.id, found.type, found.text, found.version) == (newer, "AVRO", '"string"', 2)
    assert client.version("orders-value", 1).id == first
    assert client.by_id(first) == RegisteredSchema(first, "AVRO", RECORD)


def test_references_come_with_those_that_they_use(client: Registry) -> None:
    """In the order in which they can be read: what is used comes first."""
    client.register("c", '{"type": "fixed", "name": "C", "size": 2}')
    client.register(*("b", '{"type": "array", "items": "C"}', "AVRO", (Reference("C", "c", 1),)))
    top = client.register("t", '"string"', "AVRO", (Reference("B", "b", 1),))
    found = client.referenced(client.by_id(top))
    assert list(found) == ["C", "B"]


def test_errors_are_one_line(server: SchemaRegistry, client: Registry) -> None:
    """What is missing, what is refused, what may work later."""
    with pytest.raises(NoSuchSchema, match=r"404: Subject 'x' not found\.$"):
        client.newest("x")
    with pytest.raises(NoSuchSchema, match="404: Schema 7 not found"):
        client.by_id(7)
    with pytest.raises(RegistryRefuses, match="422: Invalid schema"):
        client.register("x", "{")
    client.register("x", RECORD)
    with pytest.raises(RegistryRefuses, match=r"409: .*READER_FIELD_MISSING_DEFAULT_VALUE"):
        client.register("x", RECORD.replace('"id"', '"new"'))
    server.fail_with = 503
    asked = len(server.requests)
    with pytest.raises(RegistryAway, match="answers 503: told to fail"):
        client.by_id(1)
    assert len(server.requests) == asked + 2
    server.stop()
    with pytest.raises(RegistryAway, match="no answer from http://127"):
        client.by_id(1)
    server.fail_with = 0
    server.start()
    assert client.by_id(1).text == RECORD


def test_user_and_password() -> None:
    """In the URL or beside it; never in an error."""
    with SchemaRegistry(user="me", password="p@ss") as server:
        address = server.url.removeprefix("http://")
        for settings in (
            RegistrySettings(f"http://me:p%40ss@{address}"),
            RegistrySettings(server.url, user="me", password="p@ss"),
        ):
            registry = Registry(settings)
            assert registry.subjects() == []
            registry.close()
        wrong = Registry(RegistrySettings(f"http://me:secret@{address}"))
        with pytest.raises(RegistryRefuses, match="401: Unauthorized") as caught:
            wrong.subjects()
        wrong.close()
        assert "secret" not in str(caught.value)
        assert "secret" not in repr(RegistrySettings("http://x", password="secret"))


BEARER = {
    "bearer.auth.credentials.source": "STATIC_TOKEN",
    "bearer.auth.logical.cluster": "lsrc-1",
    "config.providers": "env",
    "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    "bearer.auth.token": "${env:REGISTRY_TOKEN}",
}


def of(url: str, **more: str) -> Registry:
    """A client with options of confluent-kafka's, which has one try."""
    return Registry(RegistrySettings(url, attempts=1, client=tuple(sorted(more.items()))))


def test_a_token_comes_from_a_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """So it isn't in the pipeline's file, nor in an error."""
    with SchemaRegistry(token="t0ken") as server:
        monkeypatch.setenv("REGISTRY_TOKEN", "t0ken")
        assert of(server.url, **BEARER).subjects() == []
        monkeypatch.setenv("REGISTRY_TOKEN", "wr0ng")
        with pytest.raises(RegistryRefuses, match=r"401: Unauthorized; see .*client") as caught:
            of(server.url, **BEARER).by_id(5)
        assert "wr0ng" not in str(caught.value)
        assert "asked for schema id 5," in str(caught.value)
        monkeypatch.delenv("REGISTRY_TOKEN")
        with pytest.raises(RegistryRefuses, match=r"registry_client: .*\$\{env:REGISTRY_TOKEN\}"):
            of(server.url, **BEARER).by_id(5)
        incomplete = BEARER | {"bearer.auth.credentials.source": "OAUTHBEARER"}
        with pytest.raises(RegistryRefuses, match=r"decode\.registry_client: "):
            of(server.url, **incomplete).by_id(5)


class _Tokens(BaseHTTPRequestHandler):
    """An OAuth server: a token for one client."""

    def do_POST(self) -> None:
        """The token of a client's credentials."""
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        given = self.headers.get("Authorization", "") + body
        is_right = b64encode(b"me:s3cret").decode() in given or "s3cret" in given
        answer = {"access_token": "t0ken", "token_type": "Bearer", "expires_in": 3600}
        data = json.dumps(answer if is_right else {"error": "invalid_client"}).encode()
        self.send_response(200 if is_right else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *arguments: object) -> None:
        """Log nothing."""


def test_a_token_of_an_oauth_server() -> None:
    """Got with the client's id and secret; a wrong secret isn't in the error."""
    tokens = ThreadingHTTPServer(("127.0.0.1", 0), _Tokens)
    thread = threading.Thread(target=tokens.serve_forever, args=(0.02,))
    thread.start()
    options = {
        "bearer.auth.credentials.source": "OAUTHBEARER",
        "bearer.auth.logical.cluster": "lsrc-1",
        "bearer.auth.client.id": "me",
        "bearer.auth.client.secret": "s3cret",
        "bearer.auth.scope": "registry",
        "bearer.auth.issuer.endpoint.url": f"http://127.0.0.1:{tokens.server_address[1]}/token",
    }
    try:
        with SchemaRegistry(token="t0ken") as server:
            assert of(server.url, **options).subjects() == []
            wrong = options | {"bearer.auth.client.secret": "guessed"}
            with pytest.raises(RegistryRefuses, match="no token for") as caught:
                of(server.url, **wrong).newest("orders-value")
            assert "guessed" not in str(caught.value)
            nobody = options | {"bearer.auth.issuer.endpoint.url": "http://127.0.0.1:1/token"}
            with pytest.raises(RegistryAway, match="no token for version latest"):
                of(server.url, **nobody).newest("orders-value")
    finally:
        tokens.shutdown()
        tokens.server_close()
        thread.join()


def test_tls_with_certificates_of_both(tmp_path: Path) -> None:
    """The registry knows the client by its certificate, the client the registry by its CA."""
    authority = Authority()
    ca = tmp_path / "ca.pem"
    ca.write_text(authority.certificate_pem)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.sign("registry").write_pem(tmp_path / "registry.pem"))
    context.load_verify_locations(ca)
    context.verify_mode = ssl.CERT_REQUIRED
    mine = authority.sign("etl").write_pem(tmp_path / "etl.pem", "s3cret")
    own = {
        "ssl.certificate.location": str(mine),
        "ssl.key.location": str(mine),
        "ssl.key.password": "s3cret",
    }
    with SchemaRegistry(tls=context) as server:
        registry = of(server.url, **{"ssl.ca.location": str(ca)}, **own)
        assert registry.register("x", RECORD) == 1
        registry.close()
        with pytest.raises(RegistryAway, match=r"no answer from https://.*certificate verify fail"):
            of(server.url, **own).by_id(1)
        with pytest.raises(RegistryAway, match="no answer from https://"):
            of(server.url, **{"ssl.ca.location": str(ca)}).by_id(1)
        with pytest.raises(RegistryRefuses, match=r"decode\.registry_client: "):
            of(server.url, **{"ssl.ca.location": str(tmp_path / "none.pem")}).by_id(1)


def test_an_answer_that_is_no_registry() -> None:
    """A page of a proxy, for instance: the line says what was asked for, and what to look at."""

    class Page(_Tokens):
        """A web server."""

        def do_GET(self) -> None:
            """A page, or JSON that holds no schema."""
            data = b"<html>" if "ids" in self.path else b"{}"
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

    page = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=page.serve_forever, args=(0.02,))
    thread.start()
    registry = of(f"http://127.0.0.1:{page.server_address[1]}")
    try:
        with pytest.raises(RegistryRefuses, match="schema id 7, answers no JSON: is it a schema"):
            registry.by_id(7)
        with pytest.raises(RegistryRefuses, match="subject x, answers without a schema"):
            registry.newest("x")
    finally:
        registry.close()
        page.shutdown()
        page.server_close()
        thread.join()


def test_options_of_the_client_are_checked_with_the_file() -> None:
    """A name that it doesn't have is found before Spark starts, and so is one that needs more."""
    registry = "http://127.0.0.1:8081"
    options = {"registry_client": {"ssl.ca.location": "/ca.pem"}}
    found = options_of(Decode("avro", registry=registry, options=options)).registry
    assert found is not None
    assert found.client == (("ssl.ca.location", "/ca.pem"),)
    for wrong, told in (
        ({"ssl.ca": "/ca.pem"}, "registry_client.ssl.ca = '/ca.pem': the options are ssl.ca.loc"),
        ({"url": "http://other"}, "registry_client.url"),
        ({"ssl.key.password": 5}, r"registry_client.ssl.key.password = '\*\*\*': it is a text"),
        ("ssl", "it is a table"),
    ):
        with pytest.raises(WrongSetting, match=told):
            options_of(Decode("avro", registry=registry, options={"registry_client": wrong}))
    with pytest.raises(WrongSetting, match=r"it needs decode\.registry"):
        options_of(Decode("avro", options={"schema": '"int"', **options}))


def test_compatibility_is_configured(server: SchemaRegistry, client: Registry) -> None:
    """NONE takes what BACKWARD refuses."""
    client.register("x", RECORD)
    wrong = RECORD.replace("id", "no")
    asked = server.ask("POST", "/compatibility/subjects/x/versions/latest", {"schema": wrong})
    assert asked == {"is_compatible": False}
    server.set_compatibility("NONE", "x")
    assert client.register("x", wrong) == 2
    assert server.ask("GET", "/config/x") == {"compatibilityLevel": "NONE"}
    assert server.ask("DELETE", "/subjects/x/versions/2") == 2
    assert server.ask("GET", "/schemas/ids/1/versions") == [{"subject": "x", "version": 1}]
    assert server.ask("DELETE", "/subjects/x") == [1]
    assert client.by_id(1).text == RECORD


class Scripted:
    """A registry that counts questions."""

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.known = {1: RegisteredSchema(1, "AVRO", RECORD)}
        self.away = False
        self.newest_number = 1
        self.gone: list[int] = []

    def by_id(self, number: int) -> RegisteredSchema:
        """A schema that is known."""
        return self._answer(number)

    def newest(self, subject: str) -> RegisteredSchema:
        """The schema 1, or what a test says."""
        return self._answer(self.newest_number)

    def versions(self, subject: str) -> list[int]:
        """Those of the schemas that are known, and of those that are gone a moment later."""
        return sorted([*(one.version for one in self.known.values()), *self.gone])

    def version(self, subject: str, version: int) -> RegisteredSchema:
        """The schema with this number."""
        return self._answer(version)

    def _answer(self, number: int) -> RegisteredSchema:
        self.asked.append(number)
        if self.away:
            raise RegistryAway("away")
        if number not in self.known:
            raise NoSuchSchema(f"no {number}")
        return self.known[number]

    def referenced(self, schema: RegisteredSchema) -> dict[str, RegisteredSchema]:
        """None."""
        return {}


def test_a_process_asks_once_for_each_id() -> None:
    """What isn't there is asked for again after a while; garbage can't make it ask without end."""
    registry, now_s = Scripted(), 0.0
    cache = SchemaCache(registry, lambda: now_s)
    for _ in range(3):
        assert cache.schema(1)[0].id == 1
        with pytest.raises(NoSuchSchema):
            cache.schema(2)
    assert registry.asked == [1, 2]
    for number in range(3, 3 + 2 * MAX_MISSES):
        with pytest.raises(NoSuchSchema):
            cache.schema(number)
    assert len(registry.asked) == 1 + MAX_MISSES
    now_s = RECHECK_S
    registry.known[2] = RegisteredSchema(2, "AVRO", RECORD)
    assert cache.schema(2)[0].id == 2


def test_a_registry_that_is_away_is_asked_once_in_a_while() -> None:
    """Otherwise every record of a batch would wait for a time-out."""
    registry, now_s = Scripted(), 0.0
    cache = SchemaCache(registry, lambda: now_s)
    registry.away = True
    for number in (1, 2, 1):
        with pytest.raises(RegistryAway):
            cache.schema(number)
    assert registry.asked == [1]
    registry.away, now_s = False, RECHECK_S
    assert cache.schema(1)[0].id == 1


@pytest.mark.parametrize("is_away", [False, True])
def test_a_failure_that_is_told_again_stays_as_large_as_it_is(is_away: bool) -> None:
    """An error keeps the frames that it passes, and with them a value: each of a million records
    would add some.
    """
    registry = Scripted()
    registry.away = is_away
    cache = SchemaCache(registry, lambda: 0.0)
    frames = []
    for _ in range(5):
        with pytest.raises(RegistryError) as raised:
            cache.schema(2)
        frames.append(len(list(walk_tb(raised.value.__traceback__))))
    assert len(set(frames[1:])) == 1


def test_a_subject_has_its_older_versions() -> None:
    """Newest first, each fetched once; a version that is deleted meanwhile is left out."""
    registry = Scripted()
    for number in (1, 2, 3):
        registry.known[number] = RegisteredSchema(number, "AVRO", RECORD, version=number)
    registry.newest_number = 3
    subjects = Subjects(registry)
    assert [one.schema.version for one in subjects.newest("s", 0).versions] == [3, 2, 1]
    registry.known[4] = RegisteredSchema(4, "AVRO", RECORD, version=4)
    registry.newest_number = 4
    registry.asked.clear()
    assert [one.schema.version for one in subjects.newest("s", 0).versions] == [4, 3, 2, 1]
    assert registry.asked == [4]
    del registry.known[2]
    registry.gone = [2]
    assert [one.schema.version for one in Subjects(registry).newest("s", 0).older] == [3, 1]


def test_versions_that_come_one_by_one_hold_no_others() -> None:
    """Or each would have all before it within, and twice as much to hash with each version."""
    registry = Scripted()
    subjects = Subjects(registry)
    for number in range(1, 30):
        registry.known[number] = RegisteredSchema(number, "AVRO", RECORD, version=number)
        registry.newest_number = number
        newest = subjects.newest("s", 0)
    assert [one.schema.version for one in newest.older] == list(range(28, 0, -1))
    assert {type(one) for one in newest.versions} == {Version}


def test_a_registry_that_is_away_delays_no_batch() -> None:
    """It is asked before each batch, but not again for a while after it didn't answer."""
    registry, now_s = Scripted(), 0.0
    subjects = Subjects(registry, lambda: now_s)
    first = subjects.newest("s", 0)
    registry.away = True
    for moment_s in (1.0, 2.0, AWAY_S):
        now_s = moment_s
        assert subjects.newest("s", 0) is first
    assert len(registry.asked) == 2
    registry.away, now_s = False, 1.0 + AWAY_S
    subjects.newest("s", 0)
    assert len(registry.asked) == 3


def test_the_newest_schema_is_renewed_and_survives_the_registry() -> None:
    """Asked for again when it is old; the last known one goes on while the registry is away."""
    registry, now_s = Scripted(), 0.0
    subjects = Subjects(registry, lambda: now_s)
    first = subjects.newest("s", 10)
    now_s = 9.0
    assert subjects.newest("s", 10) is first
    assert len(registry.asked) == 1
    now_s, registry.away = 10.0, True
    assert subjects.newest("s", 10) is first
    now_s, registry.away = 20.0, False
    registry.known[1] = RegisteredSchema(5, "AVRO", RECORD)
    assert subjects.newest("s", 10).schema.id == 5
    registry.away = True
    with pytest.raises(RegistryAway):
        Subjects(registry).newest("s", 10)
