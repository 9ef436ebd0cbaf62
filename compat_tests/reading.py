"""Reading a topic as far as it goes at the moment, committed or not."""

import time
from collections.abc import Iterator

from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, OffsetSpec

from compat_tests.clients import QUIET, READ_TIMEOUT_S
from kwire.testing.waiting import wait_until


def messages(
    bootstrap: str, topic: str, partitions: int, isolation: str = "read_committed"
) -> Iterator[Message]:
    """Every record up to where the partitions end now, also while others write without a pause.

    librdkafka tells of an end only when it has asked for more and got nothing. A broker that leads
    one busy partition may never say so.
    """
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            "isolation.level": isolation,
        },
        logger=QUIET,
    )
    wanted = [TopicPartition(topic, index, 0) for index in range(partitions)]
    ends = {one.partition: _end(consumer, one) for one in wanted}
    consumer.assign(wanted)
    ended: set[int | None] = set()
    give_up_at = time.monotonic() + READ_TIMEOUT_S
    while len(ended) < partitions:
        assert time.monotonic() < give_up_at, f"no end of {topic}"
        message = consumer.poll(1)
        if message is None:
            continue
        error = message.error()
        if error is None:
            offset, end = message.offset(), ends.get(message.partition() or 0)
            if offset is None or end is None or offset < end:
                yield message
            else:
                ended.add(message.partition())
        else:
            assert error.code() == KafkaError._PARTITION_EOF, error
            ended.add(message.partition())
    consumer.close()


def _end(consumer: Consumer, partition: TopicPartition) -> int | None:
    """Where a partition ends now for this consumer; None if its leader can't be asked."""
    try:
        found = consumer.get_watermark_offsets(partition, timeout=READ_TIMEOUT_S, cached=False)
    except KafkaException:
        return None
    return found[1] if found is not None else None


def read_all(
    bootstrap: str, topic: str, partitions: int, isolation: str = "read_committed"
) -> Iterator[tuple[int, int, str]]:
    """Every record: partition, offset, value."""
    for message in messages(bootstrap, topic, partitions, isolation):
        partition, offset, value = message.partition(), message.offset(), message.value()
        assert partition is not None
        assert offset is not None
        assert value is not None
        yield partition, offset, value.decode()


def wait_ended(bootstrap: str, topic: str, partitions: int) -> None:
    """Wait until every transaction that was ended has its markers.

    A commit is answered when it is decided; its markers may come to other brokers after that.
    """
    client = AdminClient({"bootstrap.servers": bootstrap}, logger=QUIET)
    wanted = {TopicPartition(topic, index): OffsetSpec.latest() for index in range(partitions)}

    def ends(isolation: IsolationLevel) -> list[int]:
        asked = client.list_offsets(wanted, isolation_level=isolation)
        return [asked[partition].result(READ_TIMEOUT_S).offset for partition in wanted]

    wait_until(
        lambda: ends(IsolationLevel.READ_UNCOMMITTED) == ends(IsolationLevel.READ_COMMITTED),
        what=f"the markers of {topic}",
    )


def read_rows(bootstrap: str, topic: str, partitions: int) -> Iterator[tuple[bytes, bytes]]:
    """Every committed record: key, value."""
    for message in messages(bootstrap, topic, partitions):
        key, value = message.key(), message.value()
        assert isinstance(key, bytes)
        assert value is not None
        yield key, value


LOOK_S = 0.3
"""Between two looks of a test that waits for records: each look reads all there are."""


def count_of(bootstrap: str, topic: str, partitions: int) -> int:
    """How many committed records there are."""
    return sum(1 for _ in messages(bootstrap, topic, partitions))
