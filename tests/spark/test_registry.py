"""The registry's client against the small registry, and what a process keeps of it."""

from collections.abc import Iterator

import pytest

from kwire.spark.registry.cache import MAX_MISSES, RECHECK_S, SchemaCache
from kwire.spark.registry.client import (
    NoSuchSchema,
    Reference,
    RegisteredSchema,
    Registry,
    RegistryAway,
    RegistryRefuses,
    RegistrySettings,
)
from kwire.spark.registry.subjects import Subjects
from kwire.testing.registry import SchemaRegistry

RECORD = '{"type": "record", "name": "a.Order", "fields": [{"name": "id", "type": "long"}]}'


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


def test_schemas_by_subject_version_and_id(client: Registry) -> None:
    """The same schema has one id; subjects with odd names work too."""
    first = client.register("orders-value", RECORD)
    assert client.register("orders-value", RECORD.replace(" ", "")) == first
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
    with pytest.raises(RegistryRefuses, match=r"409: .* field new is new and has no default"):
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


def test_compatibility_is_configured(server: SchemaRegistry, client: Registry) -> None:
    """NONE takes what BACKWARD refuses."""
    client.register("x", RECORD)
    assert not server.store.compatible("x", "latest", {"schema": RECORD.replace("id", "no")})[
        "is_compatible"
    ]
    server.store.configure("x", {"compatibility": "NONE"})
    assert client.register("x", RECORD.replace("id", "no")) == 2
    assert server.store.config("x") == {"compatibilityLevel": "NONE"}
    assert server.store.delete_version("x", "2") == 2
    assert server.store.where("1") == [{"subject": "x", "version": 1}]
    assert server.store.delete("x") == [1]
    assert client.by_id(1).text == RECORD


class Scripted:
    """A registry that counts questions."""

    def __init__(self) -> None:
        self.asked: list[object] = []
        self.known = {1: RegisteredSchema(1, "AVRO", RECORD)}
        self.away = False

    def by_id(self, number: int) -> RegisteredSchema:
        """A schema that is known."""
        return self._answer(number)

    def newest(self, subject: str) -> RegisteredSchema:
        """The schema 1."""
        return self._answer(1)

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
