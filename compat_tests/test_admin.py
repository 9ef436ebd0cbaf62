"""Topics, partitions, configs, records: what admin clients do to a broker."""

import asyncio

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioNewTopic
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicDescription,
)
from kafka import KafkaAdminClient

from compat_tests.clients import QUIET, READ_TIMEOUT_S, consume_kafka_python, produce_confluent
from compat_tests.conftest import IS_ONE_KWIRE, Names
from compat_tests.test_groups import rows
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics


@pytest.fixture
def client(bootstrap: str) -> AdminClient:
    """librdkafka's admin client."""
    return AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)


def error_of(future: object) -> int:
    """The error code with which a future ends."""
    with pytest.raises(KafkaException) as caught:
        future.result(READ_TIMEOUT_S)  # type: ignore[attr-defined]
    code: int = caught.value.args[0].code()
    return code


def test_topics_are_created_and_described(client: AdminClient, names: Names) -> None:
    """Partitions, replicas, leaders and the topic's id."""
    topic = names.topic()
    client.create_topics([NewTopic(topic, 4, 1)])[topic].result(READ_TIMEOUT_S)

    def describe() -> TopicDescription | None:
        """None until Kafka's broker has heard of the topic."""
        future = client.describe_topics(TopicCollection([topic]))[topic]
        is_late = not IS_ONE_KWIRE and future.exception(READ_TIMEOUT_S)
        return None if is_late else future.result(READ_TIMEOUT_S)

    described = wait_until(describe, what="the topic")
    assert [p.id for p in described.partitions] == [0, 1, 2, 3]
    for partition in described.partitions:
        assert partition.leader.id == partition.replicas[0].id == partition.isr[0].id
    assert not described.is_internal
    assert topic in client.list_topics(timeout=READ_TIMEOUT_S).topics


@pytest.mark.parametrize(
    ("name", "partitions", "factor", "config", "code"),
    [
        ("bad name", 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        (".", 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        ("x" * 250, 1, 1, {}, KafkaError.TOPIC_EXCEPTION),
        ("many", 1, 7, {}, KafkaError.INVALID_REPLICATION_FACTOR),
        ("unknown", 1, 1, {"no.such.config": "1"}, KafkaError.INVALID_CONFIG),
        ("wrong", 1, 1, {"retention.ms": "soon"}, KafkaError.INVALID_CONFIG),
    ],
)
def test_bad_topics_are_refused(
    client: AdminClient, name: str, partitions: int, factor: int, config: dict[str, str], code: int
) -> None:
    """Each mistake has its error code."""
    new = NewTopic(name, partitions, factor, config=config)
    assert error_of(client.create_topics([new])[name]) == code


def test_existing_and_missing_topics(client: AdminClient, names: Names) -> None:
    """Creating twice and deleting what isn't there are errors; validate_only does nothing."""
    topic = names.topic()
    client.create_topics([NewTopic(topic, 1, 1)], validate_only=True)[topic].result(READ_TIMEOUT_S)
    assert topic not in client.list_topics(timeout=READ_TIMEOUT_S).topics
    client.create_topics([NewTopic(topic, 1, 1)])[topic].result(READ_TIMEOUT_S)
    again = client.create_topics([NewTopic(topic, 1, 1)])[topic]
    assert error_of(again) == KafkaError.TOPIC_ALREADY_EXISTS
    client.delete_topics([topic])[topic].result(READ_TIMEOUT_S)
    assert error_of(client.delete_topics([topic])[topic]) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_partitions_are_added(client: AdminClient, names: Names) -> None:
    """More partitions are, fewer or as many are INVALID_PARTITIONS."""
    topic = names.topic()
    client.create_topics([NewTopic(topic, 2, 1)])[topic].result(READ_TIMEOUT_S)
    client.create_partitions([NewPartitions(topic, 5)])[topic].result(READ_TIMEOUT_S)

    def count() -> int:
        """Kafka's brokers hear of the partitions a moment later."""
        described = client.describe_topics(TopicCollection([topic]))[topic]
        return len(described.result(READ_TIMEOUT_S).partitions)

    wait_until(lambda: count() == 5, what="five partitions")
    fewer = client.create_partitions([NewPartitions(topic, 3)])[topic]
    assert error_of(fewer) == KafkaError.INVALID_PARTITIONS


def test_topic_configs(client: AdminClient, names: Names) -> None:
    """Defaults, what is set at creation, incremental changes, and bad values."""
    topic = names.topic()
    new = NewTopic(topic, 1, 1, config={"retention.ms": "12345", "cleanup.policy": "delete"})
    client.create_topics([new])[topic].result(READ_TIMEOUT_S)
    resource = ConfigResource(ResourceType.TOPIC, topic)

    def describe(**wanted: str) -> dict[str, ConfigEntry] | None:
        """None until Kafka's broker has heard of the topic, and of these values."""
        future = client.describe_configs([resource])[resource]
        if not IS_ONE_KWIRE and future.exception(READ_TIMEOUT_S):
            return None
        configs: dict[str, ConfigEntry] = future.result(READ_TIMEOUT_S)
        found = {name: configs[name.replace("_", ".")].value for name in wanted}
        return configs if found == wanted else None

    configs = wait_until(describe, what="the topic's configs")
    assert (configs["retention.ms"].value, configs["retention.ms"].is_default) == ("12345", False)
    assert configs["retention.ms"].source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value
    assert configs["segment.bytes"].value == "1073741824"
    assert configs["min.cleanable.dirty.ratio"].value == "0.5"
    assert configs["unclean.leader.election.enable"].value == "false"
    changes = [
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
        ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
        ConfigEntry("max.message.bytes", "2000", incremental_operation=AlterConfigOpType.SET),
    ]
    changed = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=changes)
    client.incremental_alter_configs([changed])[changed].result(READ_TIMEOUT_S)
    configs = wait_until(lambda: describe(max_message_bytes="2000"), what="the changes")
    assert configs["cleanup.policy"].value == "delete,compact"
    assert configs["retention.ms"].value == "604800000"
    wrong = ConfigEntry("max.message.bytes", "-5", incremental_operation=AlterConfigOpType.SET)
    changed = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[wrong])
    refused = client.incremental_alter_configs([changed])[changed]
    assert error_of(refused) == KafkaError.INVALID_CONFIG
    missing = ConfigResource(ResourceType.TOPIC, names.topic())
    assert error_of(client.describe_configs([missing])[missing]) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_broker_configs(client: AdminClient) -> None:
    """A broker's configs are all there; a dynamic one changes, a read-only one doesn't."""
    node = next(iter(client.list_topics(timeout=READ_TIMEOUT_S).brokers))
    resource = ConfigResource(ResourceType.BROKER, str(node))
    configs = client.describe_configs([resource])[resource].result(READ_TIMEOUT_S)
    assert len(configs) > 250
    default = configs["message.max.bytes"].value
    assert configs["node.id"].is_read_only

    def alter(name: str, value: str | None, operation: AlterConfigOpType) -> object:
        entry = ConfigEntry(name, value, incremental_operation=operation)
        changed = ConfigResource(ResourceType.BROKER, str(node), incremental_configs=[entry])
        return client.incremental_alter_configs([changed])[changed]

    done = alter("message.max.bytes", "1048599", AlterConfigOpType.SET)
    done.result(READ_TIMEOUT_S)  # type: ignore[attr-defined]

    def value() -> str:
        return client.describe_configs([resource])[resource].result()["message.max.bytes"].value

    # A real broker follows its controller, and so hears of the change a moment later.
    wait_until(lambda: value() == "1048599", what="the changed config")
    configs = client.describe_configs([resource])[resource].result(READ_TIMEOUT_S)
    assert configs["message.max.bytes"].source == ConfigSource.DYNAMIC_BROKER_CONFIG.value
    done = alter("message.max.bytes", None, AlterConfigOpType.DELETE)
    done.result(READ_TIMEOUT_S)  # type: ignore[attr-defined]
    wait_until(lambda: value() == default, what="the default again")
    refused = alter("broker.rack", "r1", AlterConfigOpType.SET)
    assert error_of(refused) in (KafkaError.INVALID_REQUEST, KafkaError.INVALID_CONFIG)


def test_records_are_deleted(bootstrap: str, client: AdminClient, names: Names) -> None:
    """DeleteRecords moves the start of a partition, -1 to its end."""
    topic = names.topic()
    create_topics(bootstrap, topic)
    produce_confluent(bootstrap, topic, rows(0, 100))
    for offset, low in ((30, 30), (-1, 100)):
        partition = TopicPartition(topic, 0, offset)
        done = client.delete_records([partition])[partition].result(READ_TIMEOUT_S)
        assert done.low_watermark == low
        asked = {TopicPartition(topic, 0): OffsetSpec.earliest()}
        [found] = client.list_offsets(asked).values()
        assert found.result(READ_TIMEOUT_S).offset == low
    beyond = TopicPartition(topic, 0, 500)
    assert error_of(client.delete_records([beyond])[beyond]) == KafkaError.OFFSET_OUT_OF_RANGE


def test_offsets_are_listed(bootstrap: str, client: AdminClient, names: Names) -> None:
    """Earliest, latest, and the record with the largest timestamp."""
    topic = names.topic()
    create_topics(bootstrap, topic)
    produce_confluent(bootstrap, topic, rows(0, 50))
    for spec, offset in ((OffsetSpec.earliest(), 0), (OffsetSpec.latest(), 50)):
        [found] = client.list_offsets({TopicPartition(topic, 0): spec}).values()
        assert found.result(READ_TIMEOUT_S).offset == offset
    [found] = client.list_offsets({TopicPartition(topic, 0): OffsetSpec.max_timestamp()}).values()
    assert 0 <= found.result(READ_TIMEOUT_S).offset < 50


def test_the_cluster_is_described(client: AdminClient, bootstrap: str) -> None:
    """Its nodes at the addresses that were given; one of them is the controller."""
    cluster = client.describe_cluster().result(READ_TIMEOUT_S)
    assert len(cluster.cluster_id) == 22
    assert sorted(f"{n.host}:{n.port}" for n in cluster.nodes) == sorted(bootstrap.split(","))
    assert cluster.controller.id in {node.id for node in cluster.nodes}


def test_aiokafkas_admin(bootstrap: str, names: Names) -> None:
    """The same broker through aiokafka's admin client."""

    async def run(topic: str) -> None:
        client = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
        await client.start()
        try:
            await client.create_topics([AioNewTopic(topic, 2, 1)])
            while topic not in await client.list_topics():
                pass  # each request asks another broker, which may learn of it a moment later
            [described] = await client.describe_topics([topic])
            assert len(described["partitions"]) == 2
            await client.delete_topics([topic])
            while topic in await client.list_topics():
                pass
        finally:
            await client.close()

    asyncio.run(run(names.topic()))


def test_kafka_pythons_admin(bootstrap: str, admin: KafkaAdminClient, names: Names) -> None:
    """The same broker through kafka-python's admin client."""
    topic, group = names.topic(), names.group()
    admin.create_topics({topic: {"num_partitions": 2, "replication_factor": 1}})

    def partitions() -> int:
        """Kafka's broker hears of them a moment later."""
        [described] = admin.describe_topics([topic])
        return len(described["partitions"])

    wait_until(lambda: partitions() == 2, what="two partitions")
    produce_confluent(bootstrap, topic, rows(0, 20), partitioner="consistent")
    assert admin.describe_cluster()["brokers"]
    assert admin.list_groups() is not None
    assert admin.describe_log_dirs()
    admin.create_partitions({topic: 3})
    wait_until(lambda: partitions() == 3, what="three partitions")
    assert group not in str(admin.list_groups())
    first = names.topic()
    produce_confluent(bootstrap, first, rows(0, 5))
    assert len(consume_kafka_python(bootstrap, first, 5)) == 5
