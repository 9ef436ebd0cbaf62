"""Client quotas: set by Kafka's tool, and kept by producers, consumers and administrators.

Each test has a client id or a user of its own, so that it slows down no other test.
"""

import re
import shlex
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer

from compat_tests.conftest import Names
from compat_tests.java_tools import run_tool
from compat_tests.kafka_version import CONFIGS
from compat_tests.raw_batches import batch, record
from compat_tests.raw_client import RawClient
from kwire.errors import ErrorCode
from kwire.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from kwire.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from kwire.protocol.types import Request
from kwire.testing.waiting import wait_until
from tests.support.requests import create_topics_request, produce_request
from tests.support.topics import create_topics

SECURITY = Path(__file__).parent.parent / "docs" / "SECURITY.md"

EXACT, DEFAULT, ANY = 0, 1, 2
RATE = 200_000
PAYLOAD = bytes(10_000)
RECORDS = 300
"""3 MB: at RATE, the first 2 MB are within ten windows, and the others take 5 s more."""

SHORTEST_S = 3.0

REASON = "IP entity shouldnot be combined with User or ClientId"
"""Kafka has no space there."""

Entity = tuple[tuple[str, str | None], ...]


@pytest.fixture
def raw(bootstrap: str) -> Iterator[RawClient]:
    """A client for single requests."""
    client = RawClient(bootstrap)
    yield client
    client.close()


def alter(
    raw: RawClient, entity: Entity, values: Mapping[str, float | None], *, validate: bool = False
) -> tuple[int, str | None]:
    """Set values, or remove them where they are None; the error and its text."""
    entry = AlterClientQuotasRequestEntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity],
        ops=[
            OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in values.items()
        ],
    )
    request = AlterClientQuotasRequest(entries=[entry], validate_only=validate)
    [told] = raw.ask(request, 1).entries
    return told.error_code, told.error_message


def described(
    raw: RawClient, *parts: tuple[str, int, str | None], strict: bool = False
) -> dict[frozenset[tuple[str, str | None]], dict[str, float]]:
    """The quotas that a filter matches."""
    components = [ComponentData(entity_type=k, match_type=m, match=name) for k, m, name in parts]
    answer = raw.ask(DescribeClientQuotasRequest(components=components, strict=strict), 1)
    assert answer.error_code == 0
    return {
        frozenset((one.entity_type, one.entity_name) for one in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries
    }


@contextmanager
def quotas(raw: RawClient, entity: Entity, **values: float) -> Iterator[None]:
    """These quotas, for a while."""
    assert alter(raw, entity, values) == (0, None)
    parts = [(kind, DEFAULT if name is None else EXACT, name) for kind, name in entity]
    try:
        wait_until(
            lambda: described(raw, *parts, strict=True) == {frozenset(entity): values},
            what="the quotas to be known",
        )
        yield
    finally:
        alter(raw, entity, dict.fromkeys(values))


def _unique(hint: str) -> str:
    return f"{hint}-{uuid.uuid4().hex[:8]}"


def test_quotas_are_described_as_they_were_set(raw: RawClient) -> None:
    """By exact name, default and any name, strictly or with further types."""
    user, app = _unique("user"), _unique("app")
    one, both = (("user", user),), (("client-id", app), ("user", user))
    with (
        quotas(raw, one, producer_byte_rate=1e6, request_percentage=0.5),
        quotas(raw, both, consumer_byte_rate=2e6),
        quotas(raw, (("client-id", None), ("user", user)), controller_mutation_rate=1.5),
    ):
        found = described(raw, ("user", EXACT, user))
        assert found[frozenset(one)] == {"producer_byte_rate": 1e6, "request_percentage": 0.5}
        assert len(found) == 3
        assert list(described(raw, ("user", EXACT, user), strict=True)) == [frozenset(one)]
        strict = described(raw, ("user", EXACT, user), ("client-id", ANY, None), strict=True)
        assert len(strict) == 2
        default = described(raw, ("user", EXACT, user), ("client-id", DEFAULT, None))
        assert list(default.values()) == [{"controller_mutation_rate": 1.5}]
        assert alter(raw, one, {"producer_byte_rate": 5.0}, validate=True) == (0, None)
        assert described(raw, ("user", EXACT, user))[frozenset(one)]["producer_byte_rate"] == 1e6
    wait_until(lambda: not described(raw, ("user", EXACT, user)), what="the quotas to be gone")


@pytest.mark.parametrize(
    ("entity", "values", "text"),
    [
        ((), {"producer_byte_rate": 1.0}, "Invalid empty client quota entity"),
        ((("user", ""),), {"producer_byte_rate": 1.0}, "Empty user not supported"),
        ((("group", "x"),), {}, "Unhandled client quota entity type: group"),
        ((("user", "x"),), {"nonsense": 1.0}, "Invalid configuration key nonsense"),
        (
            (("user", "x"),),
            {"connection_creation_rate": 1.0},
            "Invalid configuration key connection_creation_rate",
        ),
        (
            (("user", "x"),),
            {"request_percentage": -1.0},
            "Quota request_percentage must be greater than 0",
        ),
        (
            (("user", "x"),),
            {"producer_byte_rate": 1.5},
            "producer_byte_rate cannot be a fractional value.",
        ),
        (
            (("ip", None),),
            {"connection_creation_rate": 1e10},
            "Proposed value for connection_creation_rate is too large for an INT.",
        ),
        (
            (("ip", "999.1.1.1"),),
            {"connection_creation_rate": 1.0},
            "999.1.1.1 is not a valid IP or resolvable host.",
        ),
        (
            (("ip", None), ("user", None)),
            {},
            f"Invalid quota entity combination, {REASON}",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(
    raw: RawClient, entity: Entity, values: Mapping[str, float], text: str
) -> None:
    assert alter(raw, entity, values) == (ErrorCode.INVALID_REQUEST, text)


@pytest.mark.parametrize(
    ("parts", "error"),
    [
        ([("", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("group", ANY, None)], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", 9, None)], ErrorCode.INVALID_REQUEST),
        ([("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([("user", DEFAULT, "x")], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([("user", ANY, None), ("ip", ANY, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_filters_that_make_no_sense_are_refused(
    raw: RawClient, parts: list[tuple[str, int, str | None]], error: ErrorCode
) -> None:
    components = [ComponentData(entity_type=k, match_type=m, match=name) for k, m, name in parts]
    assert raw.ask(DescribeClientQuotasRequest(components=components), 1).error_code == error


def test_kafka_configs_sets_and_shows_quotas(bootstrap: str) -> None:
    """Of users, of client ids, of both, and of addresses."""
    server = ("--bootstrap-server", bootstrap)
    user, app = _unique("user"), _unique("app")
    for entity, setting in (
        (("--entity-type", "users", "--entity-name", user), "producer_byte_rate=1024"),
        (("--entity-type", "clients", "--entity-name", app), "request_percentage=50"),
        (
            *(
                (
                    *("--entity-type", "users", "--entity-name", user),
                    *("--entity-type", "clients", "--entity-default"),
                ),
                "consumer_byte_rate=2048",
            ),
        ),
        (("--entity-type", "ips", "--entity-name", "10.9.8.7"), "connection_creation_rate=99"),
    ):
        name, _, value = setting.partition("=")
        run_tool(CONFIGS, *server, *entity, "--alter", "--add-config", setting)
        _wait_shown(f"{name}={value}", *server, *entity)
        run_tool(CONFIGS, *server, *entity, "--alter", "--delete-config", name)


def test_the_recipe_of_the_documentation(bootstrap: str) -> None:
    """docs/SECURITY.md as it stands."""
    [recipe] = re.findall(r"<!-- recipe: quotas -->\n```bash\n(.*?)```", SECURITY.read_text(), re.S)
    commands = [
        shlex.split(line.replace("localhost:9092", bootstrap))[1:]
        for line in recipe.replace("\\\n", "").splitlines()
    ]
    *alterations, describe = commands
    try:
        for command in alterations:
            run_tool(CONFIGS, *command)
        for text in ("producer_byte_rate=1048576", "request_percentage=20"):
            _wait_shown(text, *[word for word in describe if word != "--describe"])
    finally:
        for command in alterations:
            at = command.index("--add-config")
            names = re.sub("=[0-9]+", "", command[at + 1])
            run_tool(CONFIGS, *command[:at], "--delete-config", names)


def _wait_shown(text: str, *arguments: str) -> None:
    wait_until(
        lambda: text in run_tool(CONFIGS, *arguments, "--describe"),
        what=f"the tool to show {text}",
        timeout_s=30,
    )


def test_a_producer_keeps_to_its_quota(bootstrap: str, raw: RawClient, names: Names) -> None:
    topic, app = names.topic(), _unique("app")
    create_topics(bootstrap, topic)
    waits: list[float] = []
    with quotas(raw, (("client-id", app),), producer_byte_rate=RATE):
        producer = Producer(_settings(bootstrap, app, waits, **{"batch.size": 100_000}))
        began_s = time.monotonic()
        for _ in range(RECORDS):
            producer.produce(topic, PAYLOAD)
        assert producer.flush(60) == 0
        producer.poll(0)
        assert time.monotonic() - began_s >= SHORTEST_S
    assert max(waits) > 0


def test_many_connections_share_a_quota(bootstrap: str, raw: RawClient, names: Names) -> None:
    """Each new connection waits for what the others have used; without a quota none does."""
    topic = names.topic()
    create_topics(bootstrap, topic)
    produce = produce_request(topic, batch([record(0, value=bytes(500_000))]), acks=1)
    waits = []
    with quotas(raw, (("client-id", "raw"),), producer_byte_rate=1000.0):
        for _ in range(3):
            client = RawClient(bootstrap)
            waits.append(client.ask(produce, 9).throttle_time_ms)
            client.close()
    assert waits[0] > 0
    assert waits[1] > waits[0]
    assert waits[2] > waits[1]


def test_a_consumer_keeps_to_its_quota(bootstrap: str, raw: RawClient, names: Names) -> None:
    topic, app = names.topic(), _unique("app")
    create_topics(bootstrap, topic)
    producer = Producer({"bootstrap.servers": bootstrap})
    for _ in range(RECORDS):
        producer.produce(topic, PAYLOAD)
    assert producer.flush(60) == 0
    waits: list[float] = []
    more = {"group.id": names.group(), "auto.offset.reset": "earliest", "fetch.max.bytes": 1 << 20}
    with quotas(raw, (("client-id", app),), consumer_byte_rate=RATE):
        consumer = Consumer(_settings(bootstrap, app, waits, **more))
        consumer.subscribe([topic])
        assert consumer.poll(30) is not None
        began_s = time.monotonic()
        seen = 1
        while seen < RECORDS:
            seen += len(consumer.consume(100, timeout=1.0))
            assert time.monotonic() - began_s < 60
        assert time.monotonic() - began_s >= SHORTEST_S
        consumer.close()
    assert max(waits) > 0


def _settings(bootstrap: str, app: str, waits: list[float], **more: object) -> dict[str, Any]:
    """The settings of a client of librdkafka; ``waits`` gets the times it is told to wait, in s."""
    return {
        "bootstrap.servers": bootstrap,
        "client.id": app,
        "throttle_cb": lambda event: waits.append(event.throttle_time),
        **more,
    }


def test_changes_of_metadata_keep_to_their_quota(
    bootstrap: str, raw: RawClient, names: Names
) -> None:
    """What is too much is refused where clients understand it, and otherwise only slowed down.

    Each question comes from a connection of its own: those before wait for their time to be over.
    """

    def ask(request: Request, version: int) -> Any:
        client = RawClient(bootstrap)
        try:
            return client.ask(request, version)
        finally:
            client.close()

    exceeded = [ErrorCode.THROTTLING_QUOTA_EXCEEDED]
    first, second, third = (names.topic() for _ in range(3))
    with quotas(raw, (("client-id", "raw"),), controller_mutation_rate=1.0):
        created = ask(
            create_topics_request(first, partitions=20), 7
        )  # there are 11 to give at first, and the others lent
        assert [topic.error_code for topic in created.topics] == [0]
        assert created.throttle_time_ms == 0
        refused = ask(create_topics_request(second, partitions=1), 6)
        assert [one.error_code for one in refused.topics] == exceeded
        assert 0 < refused.throttle_time_ms <= 9000
        slow = ask(create_topics_request(third, partitions=2), 5)
        assert [topic.error_code for topic in slow.topics] == [0]
        assert slow.throttle_time_ms > refused.throttle_time_ms
        more = CreatePartitionsTopic(name=first, count=21, assignments=None)
        extended = ask(CreatePartitionsRequest(topics=[more], timeout_ms=9000), 3)
        assert [one.error_code for one in extended.results] == exceeded
        doomed = DeleteTopicsRequest(topics=[DeleteTopicState(name=first)], timeout_ms=9000)
        deleted = ask(doomed, 6)
        assert [one.error_code for one in deleted.responses] == exceeded
        assert deleted.throttle_time_ms > 0
