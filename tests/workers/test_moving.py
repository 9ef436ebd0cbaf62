"""Partitions move between the workers of one machine, as they do between brokers of a cluster."""

from confluent_kafka import TopicPartition

from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartition,
    ReassignableTopic,
)
from kwire.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)
from kwire.testing.asking import Asker
from kwire.testing.waiting import wait_until
from tests.server.clusters import create, leaders
from tests.workers.clients import WAIT_S, consumer, produce, read, stored

PARTITIONS = 4
OFFSETS = "__consumer_offsets"


class At:
    """One worker, for the questions of ``tests.server.clusters``."""

    def __init__(self, address):
        self.bootstrap = address


def _move(address, node_id, **partitions):
    """Have one worker lead all partitions of these topics, and wait until it does."""
    asker = Asker()
    topics = [
        ReassignableTopic(
            name=name,
            partitions=[
                ReassignablePartition(partition_index=index, replicas=[node_id])
                for index in range(count)
            ],
        )
        for name, count in partitions.items()
    ]
    request = AlterPartitionReassignmentsRequest(topics=topics, timeout_ms=30_000)
    answer = asker.ask(address, request, 1, AlterPartitionReassignmentsResponse)
    rows = [row for topic in answer.responses for row in topic.partitions]
    assert answer.error_code == 0
    assert [row.error_code for row in rows] == [0] * sum(partitions.values())

    def is_done():
        request = ListPartitionReassignmentsRequest(topics=None, timeout_ms=30_000)
        return not asker.ask(address, request, 0, ListPartitionReassignmentsResponse).topics

    wait_until(is_done, timeout_s=WAIT_S, what="the end of the moves")
    for name, count in partitions.items():
        assert leaders(At(address), name) == [node_id] * count


def test_partitions_and_groups_move_to_one_worker(start):
    """Nothing is lost, the group goes on where it was, and then one broker serves it all alone."""
    workers = start()
    first = workers.addresses[0]
    create(At(first), "t", PARTITIONS)
    wait_until(lambda: sorted(leaders(At(first), "t")) == [1, 1, 2, 2], what="the topic")
    before = produce(workers.bootstrap, "t", PARTITIONS, "a")
    member = consumer(workers.bootstrap, "g")
    member.assign([TopicPartition("t", index) for index in range(PARTITIONS)])
    assert read(len(before), member) == before
    member.commit(asynchronous=False)

    _move(first, 2, t=PARTITIONS)
    meanwhile = produce(workers.bootstrap, "t", PARTITIONS, "b")
    _move(first, 1, t=PARTITIONS, **{OFFSETS: 4})
    assert read(len(meanwhile), member) == meanwhile
    member.commit(asynchronous=False)
    member.close()
    assert workers.stop() == 0

    alone = start(count=None)
    after = produce(alone.bootstrap, "t", PARTITIONS, "c")
    everything = sorted([*before, *meanwhile, *after])
    assert stored(alone.bootstrap, "t", PARTITIONS, len(everything)) == everything
    member = consumer(alone.bootstrap, "g")
    member.assign([TopicPartition("t", index) for index in range(PARTITIONS)])
    assert read(len(after), member) == after
    member.close()
