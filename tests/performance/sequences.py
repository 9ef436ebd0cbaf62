"""The fixed sequences of requests whose cost is recorded.

A sequence gets a desk, prepares what it needs, and gives a function of n: what is sent for the
n-th time, as stages of what is ``Sent``. How many partitions a fetch has to bring records of, and
which error is the answer that is wanted, its message says.
"""

from kwire.errors import ErrorCode
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.end_txn import EndTxnRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.record.records import ProducerState
from tests.performance.desk import Message, sent
from tests.performance.messages import (
    GROUP,
    MEGABYTE,
    TOPIC,
    batch,
    commit,
    fetch,
    join,
    produce,
    sync,
)
from tests.performance.replicas import REPLICATED
from tests.support.asking import TRANSACTION_KEY

TRANSACTION = "transfers"


def again(*messages):
    """The same requests every time, each of one connection."""
    stage = [sent(message) for message in messages]
    return lambda _n: [stage]


def one_after_another(*messages):
    """The stages of requests that each wait for the one before to be answered."""
    return [[sent(message)] for message in messages]


async def produce_1(desk):
    """One connection, one record."""
    await desk.topic(TOPIC, 10)
    return again(produce(batch()))


async def produce_2(desk):
    """Two records, so that the batch is not of the shape that is fastest."""
    await desk.topic(TOPIC, 10)
    return again(produce(batch(2)))


async def produce_100(desk):
    """A batch as busy producers make them."""
    await desk.topic(TOPIC, 10)
    return again(produce(batch(100)))


async def produce_idempotent(desk):
    """A producer with a sequence."""
    await desk.topic(TOPIC, 10)
    request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    found = await desk.ask(Message(request, 4))

    def nth(n):
        producer = ProducerState(found.producer_id, found.producer_epoch, n)
        return one_after_another(produce(batch(producer=producer)))

    return nth


async def produce_10_in_flight(desk):
    """Ten requests that are read together."""
    await desk.topic(TOPIC, 10)
    together = sent(produce(batch()), times=10)
    return lambda _n: [[together]]


async def produce_8_clients(desk):
    """Eight connections that are readable together."""
    await desk.topic(TOPIC, 10)
    return again(*(produce(batch())._replace(connection=number) for number in range(8)))


async def produce_30_partitions(desk):
    """One request, thirty partitions: in a produce request the hundredth costs what these do."""
    await desk.topic(TOPIC, 30)
    return again(produce(batch(), partitions=30))


async def produce_megabyte(desk):
    """A payload that should never be copied."""
    await desk.topic(TOPIC, 1)
    return again(produce(batch(record_bytes=MEGABYTE)))


async def fetch_1(desk):
    """One partition, one record."""
    await desk.topic(TOPIC, 10)
    await desk.ask(produce(batch()))
    return again(fetch())


async def fetch_10(desk):
    """Ten partitions, records in one of them."""
    await desk.topic(TOPIC, 10)
    await desk.ask(produce(batch()))
    return again(fetch(10))


async def fetch_30(desk):
    """Thirty partitions without a session, records in all of them.

    A fetch of a hundred, which was counted before, copied 14 KB; this one copies nothing.
    """
    await desk.topic(TOPIC, 30)
    await desk.ask(produce(batch(), partitions=30))
    return again(fetch(30, brings=30))


async def fetch_session(desk):
    """A session of one hundred partitions in which nothing happens."""
    await desk.topic(TOPIC, 100)
    opened = await desk.ask(fetch(100, session=(0, 0), brings=0))

    def nth(n):
        return one_after_another(fetch(0, session=(opened.session_id, n + 1), brings=0))

    return nth


async def fetch_committed(desk):
    """A partition with an aborted transaction, read_committed."""
    await desk.topic(TOPIC, 1)
    transaction = await begin_transactions(desk)
    for message in transaction(0, committed=False):
        await desk.ask(message)
    await desk.ask(produce(batch()))
    return again(fetch(isolation=1))


async def fetch_megabyte(desk):
    """A payload that should go from the page cache to the socket."""
    await desk.topic(TOPIC, 1)
    await desk.ask(produce(batch(record_bytes=MEGABYTE)))
    wanted = fetch(max_bytes=2 * MEGABYTE)
    found = (await desk.ask(wanted)).responses[0].partitions[0]
    assert len(found.records) > MEGABYTE
    return again(wanted)


async def long_poll(desk):
    """A fetch that waits for the record of another connection."""
    await desk.topic(TOPIC, 1)
    produced = produce(batch())._replace(connection=1)
    return lambda n: one_after_another(fetch(offset=n, wait_ms=30_000), produced)


async def list_offsets(desk):
    """The end of a partition."""
    await desk.topic(TOPIC, 10)
    wanted = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
    request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=TOPIC, partitions=wanted)])
    return again(Message(request, 7))


async def metadata(desk):
    """A topic of ten partitions."""
    await desk.topic(TOPIC, 10)
    return again(Message(MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)]), 12))


async def heartbeat_of_nobody(_desk):
    """What a request costs that does next to nothing."""
    request = HeartbeatRequest(group_id=GROUP, member_id="m")
    return again(Message(request, 4, error_code=ErrorCode.NOT_COORDINATOR))


async def find_coordinator(desk):
    """Where a group is at home."""
    await desk.find_coordinator(GROUP)
    return again(Message(FindCoordinatorRequest(coordinator_keys=[GROUP]), 4))


async def join_group(desk):
    """A member of a group, after its first generation: its id and the generation."""
    await desk.topic(TOPIC, 10)
    await desk.find_coordinator(GROUP)
    member_id = (await desk.ask(join(""))).member_id
    joined = await desk.ask(join(member_id))
    await desk.ask(sync(member_id, joined.generation_id))
    return member_id, joined.generation_id


async def rejoin(desk):
    """A follower joins again, which its group's generation outlasts, and syncs."""
    leader, _ = await join_group(desk)
    follower = (await desk.ask(join("")._replace(connection=1))).member_id
    joins = join(follower)._replace(connection=1)
    await desk.send(joins.connection, sent(joins).frames)  # answered when the leader has joined
    generation = (await desk.ask(join(leader))).generation_id
    await desk.expect(joins)
    await desk.ask(sync(leader, generation))
    syncs = sync(follower, generation)._replace(connection=1)
    return lambda _n: one_after_another(joins, syncs)


async def offset_commit(desk):
    """A member commits ten partitions."""
    member_id, generation = await join_group(desk)
    return again(commit(member_id, generation, 5))


async def heartbeat(desk):
    """A member is alive."""
    member_id, generation = await join_group(desk)
    request = HeartbeatRequest(group_id=GROUP, generation_id=generation, member_id=member_id)
    return again(Message(request, 4))


async def offset_fetch(desk):
    """A group's committed offsets of ten partitions."""
    member_id, generation = await join_group(desk)
    await desk.ask(commit(member_id, generation, 5))
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=list(range(10)))]
    groups = [OffsetFetchRequestGroup(group_id=GROUP, topics=topics)]
    return again(Message(OffsetFetchRequest(groups=groups), 8))


async def consumer_heartbeat(desk):
    """A member of a group of KIP-848 is alive."""
    await desk.topic(TOPIC, 10)
    await desk.find_coordinator(GROUP)
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id="m",
        rebalance_timeout_ms=30_000,
        subscribed_topic_names=[TOPIC],
        topic_partitions=[],
    )
    joined = await desk.ask(Message(request, 1))
    alive = ConsumerGroupHeartbeatRequest(
        group_id=GROUP, member_id="m", member_epoch=joined.member_epoch
    )
    return again(Message(alive, 1))


async def begin_transactions(desk):
    """A transactional id; the function gives the requests of its n-th transaction."""
    await desk.find_coordinator(TRANSACTION, TRANSACTION_KEY)
    request = InitProducerIdRequest(transactional_id=TRANSACTION, transaction_timeout_ms=60_000)
    found = await desk.ask(Message(request, 4))
    mine = {"producer_id": found.producer_id, "producer_epoch": found.producer_epoch}
    add = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=TRANSACTION,
        v3_and_below_producer_id=found.producer_id,
        v3_and_below_producer_epoch=found.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
    )

    def nth(n, *, committed=True):
        producer = ProducerState(found.producer_id, found.producer_epoch, n)
        return (
            Message(add, 3),
            produce(batch(producer=producer, transactional=True), transaction=TRANSACTION),
            Message(EndTxnRequest(transactional_id=TRANSACTION, committed=committed, **mine), 3),
        )

    return nth


async def transaction(desk):
    """AddPartitionsToTxn, Produce, EndTxn."""
    await desk.topic(TOPIC, 1)
    nth = await begin_transactions(desk)
    return lambda n: one_after_another(*nth(n))


SEQUENCES = {
    "produce, 1 record": produce_1,
    "produce, 2 records": produce_2,
    "produce, 100 records": produce_100,
    "produce, idempotent": produce_idempotent,
    "produce, 10 requests in one read": produce_10_in_flight,
    "produce, 8 clients at once": produce_8_clients,
    "fetch, 1 partition": fetch_1,
    "fetch, 10 partitions": fetch_10,
    "fetch, session of 100 quiet partitions": fetch_session,
    "fetch, read_committed": fetch_committed,
    "fetch that waits, produce": long_poll,
    "list offsets": list_offsets,
    "metadata": metadata,
    "find coordinator": find_coordinator,
    "join group, sync group": rejoin,
    "heartbeat": heartbeat,
    "heartbeat of nobody": heartbeat_of_nobody,
    "offset commit, 10 partitions": offset_commit,
    "offset fetch, 10 partitions": offset_fetch,
    "consumer group heartbeat": consumer_heartbeat,
    "transaction: add, produce, end": transaction,
}

MANY_PARTITIONS = {
    "produce, 30 partitions": produce_30_partitions,
    "fetch, 30 partitions, no session": fetch_30,
}
"""A few times are enough."""

LARGE = {"produce, 1 MB": produce_megabyte, "fetch, 1 MB": fetch_megabyte}
"""How often they are read and sent depends on the kernel's buffers; only memory is counted."""

ALL = {**SEQUENCES, **REPLICATED, **MANY_PARTITIONS, **LARGE}
