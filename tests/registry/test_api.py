"""The REST API as Confluent's client for Python uses it, and as it is documented."""

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from confluent_kafka.schema_registry import Schema, SchemaReference, SchemaRegistryClient
from confluent_kafka.schema_registry.error import SchemaRegistryError

from kwire.testing.schema_registry import SchemaRegistry

V1_JSON = "application/vnd.schemaregistry.v1+json"


def record(*names: str, **more: Any) -> str:
    """A record with fields of type int; those after the first have a default."""
    first, *others = ({"name": name, "type": "int"} for name in names)
    fields = [first, *(one | {"default": 0} for one in others)]
    return json.dumps({"type": "record", "name": "R", "fields": fields, **more})


def avro(*names: str) -> Schema:
    """Such a record for Confluent's client."""
    return Schema(record(*names), "AVRO")


@pytest.fixture
def registry() -> Iterator[SchemaRegistry]:
    """A registry in memory."""
    with SchemaRegistry() as running:
        yield running


@pytest.fixture
def client(registry: SchemaRegistry) -> SchemaRegistryClient:
    """Confluent's client."""
    return SchemaRegistryClient({"url": registry.url})


@pytest.fixture
def http(registry: SchemaRegistry) -> Iterator[httpx.Client]:
    """A client of HTTP."""
    with httpx.Client(base_url=registry.url, verify=False) as found:
        yield found


def test_register_read_and_look_up(client: SchemaRegistryClient) -> None:
    """One schema has one id, however it is written, and under all subjects."""
    assert client.register_schema("a/b c-value", avro("a")) == 1
    assert client.register_schema("x", Schema(record("a").replace(" ", "  "), "AVRO")) == 1
    assert client.register_schema("x", avro("a", "b")) == 2
    assert client.get_subjects() == ["a/b c-value", "x"]
    assert client.get_versions("x") == [1, 2]
    assert json.loads(client.get_schema(1).schema_str) == json.loads(record("a"))
    found = client.get_version("x", 2)
    assert (found.schema_id, found.version, found.subject) == (2, 2, "x")
    assert client.get_latest_version("x").version == 2
    assert client.lookup_schema("x", avro("a")).version == 1
    assert client.get_subjects_by_schema_id(1) == ["a/b c-value", "x"]
    assert [(one.subject, one.version) for one in client.get_schema_versions(2)] == [("x", 2)]
    assert client.get_contexts() == ["."]
    assert "AVRO" in client.get_schema_types()


def test_deletion(client: SchemaRegistryClient, http: httpx.Client) -> None:
    """Soft, then for good; the client sees what it asks for."""
    client.register_schema("x", avro("a"))
    client.register_schema("x", avro("a", "b"))
    assert client.delete_version("x", 1) == 1
    assert client.get_versions("x") == [2]
    assert client.get_versions("x", deleted=True) == [1, 2]
    assert http.get("/subjects/x/versions?deletedOnly=true").json() == [1]
    assert client.delete_subject("x") == [2]
    assert client.delete_subject("x", permanent=True) == [1, 2]
    assert client.get_subjects(deleted=True) == []
    with pytest.raises(SchemaRegistryError, match="40401"):
        client.delete_subject("x")


def test_references(client: SchemaRegistryClient) -> None:
    """A schema uses another one, which then can't be deleted."""
    client.register_schema("base", Schema('{"type":"fixed","name":"F","size":2}', "AVRO"))
    uses = [SchemaReference("F", "base", 1)]
    text = '{"type":"record","name":"U","fields":[{"name":"f","type":"F"}]}'
    number = client.register_schema("user", Schema(text, "AVRO", uses))
    assert client.get_referenced_by("base", 1) == [number]
    found = client.get_schema(number).references
    assert found is not None
    assert [(one.name, one.subject, one.version) for one in found] == [("F", "base", 1)]
    with pytest.raises(SchemaRegistryError, match="42206"):
        client.delete_subject("base")
    missing = Schema(text, "AVRO", [SchemaReference("F", "base", 2)])
    with pytest.raises(SchemaRegistryError, match="42201"):
        client.register_schema("user", missing)


def test_compatibility(client: SchemaRegistryClient, http: httpx.Client) -> None:
    """Checked when a schema is registered, and when a client asks."""
    client.register_schema("x", avro("a"))
    without_default = Schema(record("b"), "AVRO")
    with pytest.raises(SchemaRegistryError, match="409"):
        client.register_schema("x", without_default)
    assert client.test_compatibility("x", avro("a", "b"))
    assert not client.test_compatibility("x", without_default)
    assert not client.test_compatibility_all_versions("x", without_default)
    assert client.test_compatibility("new", without_default)
    path, body = "/compatibility/subjects/x/versions/1", {"schema": record("b")}
    answer = http.post(path, params={"verbose": "true"}, json=body).json()
    assert not answer["is_compatible"]
    assert any("READER_FIELD_MISSING_DEFAULT_VALUE" in one for one in answer["messages"])
    assert client.set_compatibility("x", "NONE")["compatibility"] == "NONE"
    assert client.get_compatibility("x") == "NONE"
    assert client.register_schema("x", without_default) == 2
    assert client.set_compatibility(level="FULL_TRANSITIVE")["compatibility"] == "FULL_TRANSITIVE"
    assert client.get_compatibility() == "FULL_TRANSITIVE"
    client.delete_config("x")
    with pytest.raises(SchemaRegistryError, match="40408"):
        client.get_compatibility("x")


def test_modes(client: SchemaRegistryClient, http: httpx.Client) -> None:
    """READONLY, IMPORT with ids, and back."""
    assert client.get_global_mode() == "READWRITE"
    client.update_global_mode("READONLY")
    with pytest.raises(SchemaRegistryError, match="42205"):
        client.register_schema("x", avro("a"))
    client.delete_mode("")
    client.update_mode("x", "IMPORT")
    body = {"schema": record("a"), "id": 40, "version": 3}
    assert http.post("/subjects/x/versions", json=body).json() == {"id": 40}
    assert client.get_version("x", 3).schema_id == 40
    assert client.delete_mode("x") == "IMPORT"
    with pytest.raises(SchemaRegistryError, match="40409"):
        client.get_mode("x")


def test_normalized_schemas(client: SchemaRegistryClient) -> None:
    """What means the same is the same, if a client asks for it."""
    one = '{"type":"record","name":"n.R","fields":[]}'
    other = '{"type":"record","namespace":"n","name":"R","fields":[],"odd":1}'
    number = client.register_schema("x", Schema(one, "AVRO"), normalize_schemas=True)
    assert client.lookup_schema("x", Schema(one, "AVRO"), normalize_schemas=True).version == 1
    client.set_compatibility("x", "NONE")
    assert client.register_schema("x", Schema(other, "AVRO")) != number


def test_contexts(client: SchemaRegistryClient, registry: SchemaRegistry) -> None:
    """A client may name a context in the subject, or in the address of the registry."""
    assert client.register_schema("x", avro("z")) == 1
    assert client.register_schema(":.dev:x", avro("a")) == 1
    assert client.get_contexts() == [".", ".dev"]
    in_dev = SchemaRegistryClient({"url": f"{registry.url}/contexts/.dev"})
    assert in_dev.register_schema("y", avro("b")) == 2
    assert in_dev.get_subjects() == [":.dev:x", ":.dev:y"]
    assert json.loads(in_dev.get_schema(1).schema_str) == json.loads(record("a"))
    assert client.get_subjects(subject_prefix=":.dev:y") == [":.dev:y"]
    assert client.get_subjects(subject_prefix="x") == ["x"]
    assert client.get_subjects() == [":.dev:x", ":.dev:y", "x"]


ERRORS = [
    ("GET", "/subjects/none/versions", None, 40401),
    ("GET", "/subjects/x/versions/2", None, 40402),
    ("GET", "/schemas/ids/7", None, 40403),
    ("GET", "/schemas/ids/seven", None, 404),
    ("DELETE", "/subjects/x?permanent=true", None, 40405),
    ("DELETE", "/subjects/x/versions/1?permanent=true", None, 40407),
    ("POST", "/subjects/x", {"schema": record("b")}, 40403),
    ("POST", "/subjects/none", {"schema": record("b")}, 40401),
    ("POST", "/subjects/x/versions", {"schema": "{"}, 42201),
    ("POST", "/subjects/x/versions", {"schema": ""}, 42201),
    ("POST", "/subjects/x/versions", {"schema": 7}, 42201),
    ("POST", "/subjects/x/versions", {"schema": "1", "schemaType": "XML"}, 42201),
    ("POST", "/subjects/x/versions", {"schema": '"int"', "references": [{}]}, 42201),
    ("POST", "/subjects/x/versions", {"schema": record("a", "b"), "version": 9}, 42201),
    ("POST", "/subjects/x/versions", {"schema": '"int"', "id": 9}, 42205),
    ("POST", "/subjects/x/versions", [], 422),
    ("POST", "/subjects/x/versions", None, 422),
    ("GET", "/subjects/x/versions/0", None, 42202),
    ("GET", "/subjects/x/versions/newest", None, 42202),
    ("PUT", "/config", {"compatibility": "best"}, 42203),
    ("PUT", "/config", {"alias": "y"}, 422),
    ("PUT", "/mode", {"mode": "best"}, 42204),
    ("PUT", "/mode", {"mode": "IMPORT"}, 42205),
    ("GET", "/subjects/%00/versions", None, 42208),
    ("GET", "/nothing", None, 404),
    ("PUT", "/subjects", {}, 405),
]


@pytest.mark.parametrize(("method", "path", "body", "code"), ERRORS)
def test_errors_have_their_codes(
    http: httpx.Client, method: str, path: str, body: Any, code: int
) -> None:
    """And the status that begins with the same digits."""
    http.post("/subjects/x/versions", json={"schema": record("a")})
    answer = http.request(method, path, json=body)
    said = answer.json()
    assert (answer.status_code, said["error_code"]) == (int(str(code)[:3]), code)
    assert said["message"]
    assert answer.headers["content-type"] == V1_JSON


def test_bodies_and_their_types(http: httpx.Client) -> None:
    """The client's type is answered; forms of other pages, and what is no JSON, are refused."""
    types = [V1_JSON, "application/vnd.schemaregistry+json", "application/json"]
    for one in types:
        answer = http.get("/subjects", headers={"Accept": one})
        assert answer.headers["content-type"] == one
    body = json.dumps({"schema": record("a")})
    for one in [*types, "application/octet-stream"]:
        found = http.post("/subjects/x/versions", content=body, headers={"Content-Type": one})
        assert found.json() == {"id": 1}
    path, form = "/subjects/x/versions", {"Content-Type": "text/plain"}
    assert http.post(path, content=body, headers=form).status_code == 415
    assert http.post(path, content="{", headers={"Content-Type": V1_JSON}).status_code == 400
    for one, status in (("NaN", 400), ("-Infinity", 400), ("1e999", 422)):
        extra = f'{{"schema":"\\"int\\"","metadata":{{"properties":{{"a":{one}}}}}}}'
        assert (
            http.post(path, content=extra, headers={"Content-Type": V1_JSON}).status_code == status
        )
    deep = "[" * 100_000
    assert http.post(path, content=deep, headers={"Content-Type": V1_JSON}).status_code == 400


def test_texts_of_schemas(http: httpx.Client) -> None:
    """``/schema`` is the schema itself; ``/schemas`` are all of them."""
    http.post("/subjects/x/versions", json={"schema": record("a")})
    http.post("/subjects/x/versions", json={"schema": record("a", "b")})
    assert http.get("/schemas/ids/1/schema").json() == json.loads(record("a"))
    assert http.get("/subjects/x/versions/latest/schema").json() == json.loads(record("a", "b"))
    assert http.get("/schemas/ids/1?fetchMaxId=true").json()["maxId"] == 2
    assert [one["version"] for one in http.get("/schemas").json()] == [1, 2]
    assert [one["id"] for one in http.get("/schemas?latestOnly=true").json()] == [2]
    assert http.get("/schemas?subjectPrefix=y").json() == []
    assert [one["id"] for one in http.get("/schemas?offset=1&limit=1").json()] == [2]


def test_hostile_schemas_end_in_an_error(http: httpx.Client) -> None:
    """Too large, too deep, and references that double with each schema."""
    path = "/subjects/h/versions"
    large = {"schema": json.dumps({"type": "string", "doc": "x" * (1 << 20)})}
    assert http.post(path, json=large).json()["error_code"] == 42201
    assert http.post(path, content=b"[" * (5 << 20)).status_code == 413
    assert http.post(path, content=b"[{},{}]" * 110_000).status_code == 413
    deep = '{"type":"array","items":' * 5000 + '"int"' + "}" * 5000
    assert http.post(path, json={"schema": deep}).json()["error_code"] == 42201
    http.post("/subjects/0/versions", json={"schema": '{"type":"fixed","name":"F0","size":2}'})
    for number in range(1, 40):
        uses = [
            {"name": f"{one}{number}", "subject": str(number - 1), "version": 1} for one in "ab"
        ]
        text = f'{{"type":"fixed","name":"F{number}","size":2}}'
        answer = http.post(
            f"/subjects/{number}/versions", json={"schema": text, "references": uses}
        )
    assert answer.json()["error_code"] == 42201
    assert len(http.get("/subjects").json()) > 20


def test_a_list_of_long_schemas_comes_in_pieces(
    client: SchemaRegistryClient, http: httpx.Client
) -> None:
    """Which are made while the client reads: the memory has no whole list."""
    for number in range(5):
        client.register_schema(f"s{number}", Schema(record("a", doc=str(number) * 40_000), "AVRO"))
    with http.stream("GET", "/schemas") as answer:
        assert "content-length" not in answer.headers
        listed = json.loads(b"".join(answer.iter_bytes()))
    assert [json.loads(one["schema"])["doc"][:2] for one in listed] == [
        *("00", "11", "22", "33", "44")
    ]
