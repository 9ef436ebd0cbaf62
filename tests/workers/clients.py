"""What clients do in the tests of workers."""

from confluent_kafka import Consumer, Producer, TopicPartition

from kwire.testing.waiting import wait_until

WAIT_S = 60


def produce(bootstrap: str, topic: str, partitions: int, name: str) -> list[str]:
    """Write three records to each partition; returns their values, sorted."""
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})
    values = [f"{name}{index}-{n}" for index in range(partitions) for n in range(3)]
    for value in values:
        index = int(value.removeprefix(name).partition("-")[0])
        producer.produce(topic, value, partition=index)
    assert producer.flush(WAIT_S) == 0
    return sorted(values)


def consumer(bootstrap: str, group: str) -> Consumer:
    """A consumer of committed records, from the beginning."""
    return Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )


def read(count: int, *readers: Consumer) -> list[str]:
    """So many records that these consumers get together, sorted."""
    values: list[str] = []

    def enough() -> bool:
        for reader in readers:
            message = reader.poll(0.1)
            if message is not None and message.error() is None:
                values.append(message.value().decode())
        return len(values) >= count

    wait_until(enough, timeout_s=WAIT_S, what=f"{count} records", interval_s=0)
    return sorted(values)


def wait_for_shares(members: list[Consumer], partitions: int) -> None:
    """Each of these members of a group is assigned so many partitions.

    Without this the first member may read everything before the others have joined.
    """

    def shared() -> bool:
        for member in members:
            assert member.poll(0.05) is None
        return all(len(member.assignment()) == partitions for member in members)

    wait_until(shared, timeout_s=WAIT_S, what="a share of the partitions for each member")


def stored(bootstrap: str, topic: str, partitions: int, count: int) -> list[str]:
    """So many committed records of all partitions, sorted."""
    reader = consumer(bootstrap, "stored")
    reader.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    try:
        return read(count, reader)
    finally:
        reader.close()
