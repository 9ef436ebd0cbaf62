"""Transactions over the wire: both protocols, what they refuse, and what consumers see of them."""

import pytest

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.features import FeatureUpdate, UpgradeType, update_features
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from kwire.protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchResponse,
)
from tests.support.in_process import RawClient
from tests.support.raw_producer import RawProducer
from tests.support.requests import offset_fetch_request

TOPIC, GROUP = "orders", "billing"
READ_COMMITTED = 1
LATEST, MAX_TIMESTAMP = -1, -3
VERIFICATION = "transaction.partition.verification.enable"


@pytest.fixture
async def client(server) -> RawClient:
    """A connection."""
    return await server.connect()


@pytest.fixture(params=[True, False], ids=["newer", "first"])
async def producer(server, request) -> RawProducer:
    """A producer that has begun, of either protocol."""
    begun = RawProducer(await server.connect(), "ledger", bumps=request.param)
    await begun.init()
    return begun


async def refused(operation) -> ErrorCode:
    """The error of an operation."""
    with pytest.raises(KafkaError) as error:
        await operation
    return error.value.code


async def write(producer: RawProducer, index: int = 0, value: bytes = b"v") -> int:
    """Write a record, adding the partition where the protocol asks for that."""
    if not producer.bumps:
        await producer.add(TOPIC, index)
    return await producer.produce(TOPIC, index, value)


async def end_offset(client: RawClient, index: int = 0, *, timestamp: int = LATEST) -> int:
    """The end as read_committed consumers are told, or another offset of theirs."""
    wanted = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=READ_COMMITTED,
        topics=[ListOffsetsTopic(name=TOPIC, partitions=[wanted])],
    )
    answer = await client.request(request, 7, ListOffsetsResponse)
    return answer.topics[0].partitions[0].offset


async def fetch(client: RawClient, offset: int = 0):
    """What a read_committed consumer is given of partition 0."""
    return await client.fetch(TOPIC, offset, isolation_level=READ_COMMITTED)


async def committed_offset(client: RawClient, *, stable: bool) -> tuple[int, int]:
    """The group's offset in partition 0, and the error."""
    request = offset_fetch_request(GROUP, TOPIC, require_stable=stable)
    answer = await client.request(request, 8, OffsetFetchResponse)
    found = answer.groups[0].topics[0].partitions[0]
    return found.committed_offset, found.error_code


async def test_records_come_with_the_commit(producer, client):
    """Until then the last stable offset stays where the transaction began."""
    await write(producer)
    await write(producer)
    assert await end_offset(client) == 0
    assert (await fetch(client)).last_stable_offset == 0
    await producer.end(committed=True)
    assert await end_offset(client) == 3
    assert (await fetch(client)).aborted_transactions == []


async def test_no_time_leads_to_what_is_not_committed(producer, client):
    """Neither the largest one nor one that is asked for."""
    await write(producer)
    for timestamp in (MAX_TIMESTAMP, 0):
        assert await end_offset(client, timestamp=timestamp) == -1
    await producer.end(committed=True)
    assert await end_offset(client, timestamp=0) == 0
    assert await end_offset(client, timestamp=MAX_TIMESTAMP) >= 0


async def test_aborted_transactions_are_named(producer, client):
    """With the offset at which each began, in that order, as far as the fetch reaches."""
    other = RawProducer(client, "other")
    await other.init()
    await write(producer)  # 0
    await other.produce(TOPIC, 0, b"o")  # 1
    first_id = producer.producer_id
    await producer.end(committed=False)  # 2
    await other.end(committed=False)  # 3
    await write(producer)  # 4
    await producer.end(committed=True)  # 5
    named = (await fetch(client)).aborted_transactions
    assert [(a.producer_id, a.first_offset) for a in named] == [
        (first_id, 0),
        (other.producer_id, 1),
    ]
    assert (await fetch(client, 4)).aborted_transactions == []


async def test_offsets_come_with_the_commit(producer, client):
    """Until then a fetch that asks for stable ones is UNSTABLE_OFFSET_COMMIT."""
    for offset, committed, expected in ((5, True, 5), (9, False, 5)):
        if not producer.bumps:
            await producer.add_offsets(GROUP)
        before = (await committed_offset(client, stable=False))[0]
        await producer.commit_offset(GROUP, TOPIC, 0, offset)
        assert await committed_offset(client, stable=False) == (before, 0)
        unstable = (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
        assert await committed_offset(client, stable=True) == unstable
        await producer.end(committed=committed)
        assert await committed_offset(client, stable=True) == (expected, 0)


async def test_who_commits_offsets_must_be_who_it_says(producer):
    """Members are known by id and generation (KIP-447)."""
    if not producer.bumps:
        await producer.add_offsets(GROUP)
    stranger = producer.commit_offset(
        GROUP, TOPIC, 0, 1, generation_id_or_member_epoch=3, member_id="m"
    )
    assert await refused(stranger) is ErrorCode.ILLEGAL_GENERATION
    nameless = producer.commit_offset("", TOPIC, 0, 1)
    assert await refused(nameless) is ErrorCode.INVALID_GROUP_ID
    missing = producer.commit_offset(GROUP, "unknown", 0, 1)
    assert await refused(missing) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_partition_that_was_not_added_is_refused(server):
    """Older clients' batches are verified; newer clients may be told to abort."""
    producer = RawProducer(await server.connect(), "ledger", bumps=False)
    await producer.init()
    await producer.add(TOPIC, 1)
    assert (
        await refused(producer.produce(TOPIC, 0, b"v", version=10)) is ErrorCode.INVALID_TXN_STATE
    )
    code = await refused(producer.produce(TOPIC, 0, b"v", version=11))
    assert code is ErrorCode.TRANSACTION_ABORTABLE
    assert await refused(producer.commit_offset(GROUP, TOPIC, 0, 1)) is (
        ErrorCode.TRANSACTION_ABORTABLE
    )
    await producer.produce(TOPIC, 1, b"v")


async def test_a_batch_that_was_refused_comes_before_those_after_it(server):
    """Of the batches under way the first one may be refused for now: order is kept (KIP-890)."""
    producer = RawProducer(await server.connect(), "ledger", bumps=False)
    await producer.init()
    assert await refused(producer.produce(TOPIC, 0, b"0")) is ErrorCode.TRANSACTION_ABORTABLE
    await producer.add(TOPIC, 0)
    producer.skip(TOPIC, 0)
    code = await refused(producer.produce(TOPIC, 0, b"1"))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producer.skip(TOPIC, 0, -1)
    assert await producer.produce(TOPIC, 0, b"0") == 0
    assert await producer.produce(TOPIC, 0, b"1") == 1


@pytest.mark.parametrize("version", [10, 11, 12])
async def test_an_old_epoch_is_noticed_before_a_missing_partition(server, version):
    """A zombie may begin anew after INVALID_PRODUCER_EPOCH, and can't after INVALID_TXN_STATE."""
    producer = RawProducer(await server.connect(), "ledger", bumps=False)
    await producer.init()
    await write(producer)
    zombie_epoch = producer.epoch
    await producer.end(committed=True)
    await producer.init()
    await write(producer)
    await producer.end(committed=True)
    producer.transactional_id, producer.epoch = "another", zombie_epoch
    assert await refused(producer.produce(TOPIC, 0, b"late", version=version)) is (
        ErrorCode.INVALID_PRODUCER_EPOCH
    )


async def test_verification_can_be_switched_off(server):
    """transaction.partition.verification.enable; then a transaction can be left hanging."""
    server.broker.settings = server.broker.settings | {VERIFICATION: False}
    producer = RawProducer(await server.connect(), "ledger", bumps=False)
    await producer.init()
    await producer.produce(TOPIC, 0, b"v")
    assert server.broker.partition(TOPIC, 0).last_stable_offset == 0


async def test_a_fenced_producer_cannot_write(producer, server):
    """INVALID_PRODUCER_EPOCH in Produce, PRODUCER_FENCED in requests to the coordinator."""
    await write(producer)
    old_epoch = producer.epoch
    successor = RawProducer(await server.connect(), "ledger", bumps=producer.bumps)
    assert await refused(successor.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
    await successor.init()
    assert successor.epoch > old_epoch
    assert await refused(producer.produce(TOPIC, 0, b"late")) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await refused(producer.produce(TOPIC, 1, b"late")) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await refused(producer.end(committed=True)) is ErrorCode.PRODUCER_FENCED
    assert await refused(producer.init(goes_on=True)) is ErrorCode.PRODUCER_FENCED
    await write(successor)
    await successor.end(committed=True)


async def test_old_clients_know_no_fenced_producers(producer, server, client):
    """Before KIP-588 the error is INVALID_PRODUCER_EPOCH."""
    mine = {
        "transactional_id": "ledger",
        "producer_id": producer.producer_id,
        "producer_epoch": producer.epoch,
    }
    await RawProducer(client, "ledger").init()
    fenced, old = ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH
    for version, code in ((1, old), (2, fenced)):
        ended = await client.request(EndTxnRequest(**mine, committed=True), version, EndTxnResponse)
        assert ended.error_code == code
        added = AddPartitionsToTxnRequest(
            **{f"v3_and_below_{name}": value for name, value in mine.items()},
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
        )
        answer = await client.request(added, version, AddPartitionsToTxnResponse)
        result = answer.results_by_topic_v3_and_below[0].results_by_partition[0]
        assert result.partition_error_code == code
    for version, code in ((3, old), (4, fenced)):
        begin = InitProducerIdRequest(**mine, transaction_timeout_ms=1000)
        begun = await client.request(begin, version, InitProducerIdResponse)
        assert (begun.error_code, begun.producer_epoch) == (code, -1)


async def test_half_an_identity_is_none(client):
    """A producer id without an epoch is INVALID_REQUEST."""
    request = InitProducerIdRequest(
        transactional_id="ledger", transaction_timeout_ms=1000, producer_id=5
    )
    answer = await client.request(request, 4, InitProducerIdResponse)
    assert answer.error_code == ErrorCode.INVALID_REQUEST


async def test_brokers_add_and_verify_for_several_producers(client):
    """Version 4 and later: each transaction has its own result."""
    producer = RawProducer(client, "ledger")
    await producer.init()

    def wanted(index: int, *, verify: bool, name: str = TOPIC) -> AddPartitionsToTxnTransaction:
        return AddPartitionsToTxnTransaction(
            transactional_id="ledger",
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            verify_only=verify,
            topics=[AddPartitionsToTxnTopic(name=name, partitions=[0, index])],
        )

    not_added = ErrorCode.TRANSACTION_ABORTABLE
    for version in (4, 5):
        request = AddPartitionsToTxnRequest(
            transactions=[wanted(0, verify=False), wanted(1, verify=True), wanted(9, verify=False)]
        )
        answer = await client.request(request, version, AddPartitionsToTxnResponse)
        codes = [
            [p.partition_error_code for p in one.topic_results[0].results_by_partition]
            for one in answer.results_by_transaction
        ]
        missing = [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        assert codes == [[0], [0, not_added], missing]


async def test_an_end_that_is_repeated_is_answered_again(producer):
    """The answer may have been lost; with the newer protocol it brings the next epoch once more."""
    await write(producer)
    before = producer.producer_id, producer.epoch
    await producer.end(committed=True)
    after = producer.producer_id, producer.epoch
    producer.producer_id, producer.epoch = before
    await producer.end(committed=True)
    assert (producer.producer_id, producer.epoch) == after
    producer.producer_id, producer.epoch = before
    assert await refused(producer.end(committed=False)) is ErrorCode.INVALID_TXN_STATE


async def test_sequences_begin_at_zero_in_every_transaction(server):
    """With the newer protocol; what is lost before the first batch is noticed (KIP-890)."""
    producer = RawProducer(await server.connect(), "ledger")
    await producer.init()
    producer.skip(TOPIC, 0, 5)
    code = await refused(producer.produce(TOPIC, 0, b"v"))
    assert code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    producer.skip(TOPIC, 0, -5)
    await producer.produce(TOPIC, 0, b"v")


async def test_a_lower_level_keeps_the_epoch(server, client):
    """With transaction.version 1 the broker's own aborts bump the epoch once."""
    downgrade = FeatureUpdate("transaction.version", 1, UpgradeType.SAFE_DOWNGRADE)
    await server.broker.commit(lambda image: update_features(image, [downgrade]))
    producer = RawProducer(client, "ledger", bumps=False)
    await producer.init()
    await write(producer)
    assert await refused(producer.init()) is ErrorCode.CONCURRENT_TRANSACTIONS
    await producer.init()
    assert producer.epoch == 2
