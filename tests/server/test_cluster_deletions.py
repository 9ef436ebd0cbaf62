"""A topic is deleted while a broker with its replicas is away; as processes on a real etcd."""

from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until
from tests.server.clusters import bootstrap_of

pytestmark = pytest.mark.processes

PARTITIONS = 2
OLD, NEW = 30, 4
"""How many records each partition has; more before, so that a log that stayed would show."""

WAIT_S = 30


def _create(admin: AdminClient) -> None:
    admin.create_topics([NewTopic("t", PARTITIONS, 2)])["t"].result(WAIT_S)


def _wait_for_replicas(admin: AdminClient, *in_sync: int) -> None:
    def are_in_sync() -> bool:
        rows = admin.list_topics("t", timeout=WAIT_S).topics["t"].partitions.values()
        return len(rows) == PARTITIONS and all(
            sorted(row.isrs) == list(in_sync) and row.leader in in_sync for row in rows
        )

    wait_until(are_in_sync, timeout_s=WAIT_S, what=f"replicas in sync: {in_sync}")


def _write(broker: BrokerProcess, name: str, count: int) -> list[str]:
    """So many records for each partition, acknowledged by all replicas in sync."""
    producer = Producer({"bootstrap.servers": broker.bootstrap, "acks": "all"})
    values = [f"{name}-{index}-{n:02}" for index in range(PARTITIONS) for n in range(count)]
    for value in values:
        producer.produce("t", value, partition=int(value.split("-")[1]))
    assert producer.flush(WAIT_S) == 0
    return values


def _read(broker: BrokerProcess) -> list[str]:
    """All records, which this broker has to lead."""
    reader = Consumer(
        {"bootstrap.servers": broker.bootstrap, "group.id": "g", "enable.partition.eof": True}
    )
    reader.assign([TopicPartition("t", index, 0) for index in range(PARTITIONS)])
    values: list[str] = []
    ends = 0
    try:
        while ends < PARTITIONS:
            message = reader.poll(WAIT_S)
            assert message is not None
            if message.error() is None:
                values.append(message.value().decode())
            else:
                assert message.error().name() == "_PARTITION_EOF", message.error()
                ends += 1
    finally:
        reader.close()
    return sorted(values)


def _stored(directory: Path, text: bytes) -> list[str]:
    """The directories of partitions whose log has this text, strays and deleted ones too."""
    found = {path.parent.name for path in directory.rglob("*.log") if text in path.read_bytes()}
    return sorted(found)


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_topic_is_deleted_while_its_replicas_are_away(start, tmp_path, end):
    """A new topic has its name; the broker comes back, and none of the old records do."""
    first, second = start(1), start(2)
    admin = AdminClient({"bootstrap.servers": bootstrap_of({1: first, 2: second})})
    _create(admin)
    _wait_for_replicas(admin, 1, 2)
    _write(first, "old", OLD)
    assert _stored(tmp_path / "b2", b"old-") == ["t-0", "t-1"]

    getattr(second, end)()
    _wait_for_replicas(admin, 1)
    admin.delete_topics(["t"])["t"].result(WAIT_S)
    _create(admin)
    values = _write(first, "new", NEW)
    second.restart()
    _wait_for_replicas(admin, 1, 2)

    assert not {"t-0", "t-1"}.intersection(_stored(tmp_path / "b2", b"old-"))
    assert _stored(tmp_path / "b2", b"new-") == ["t-0", "t-1"]
    for index in range(PARTITIONS):
        assert f"t-{index} is of a deleted topic or moved away; putting it aside" in second.log()
    first.kill()
    # A request of the first client may be lost when librdkafka forgets its brokers.
    _wait_for_replicas(AdminClient({"bootstrap.servers": second.bootstrap}), 2)
    assert _read(second) == values
