"""ShareFetch and ShareAcknowledge over the wire: who gets which records, when, and how often."""

import pytest
import trio

from kwire.broker.share_partitions import AT_ONCE
from kwire.errors import ErrorCode
from kwire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kwire.protocol.messages.share_fetch import ForgottenTopic
from kwire.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from kwire.share import persister
from kwire.share.key import SharePartitionKey
from kwire.testing.waiting import until
from tests.support.in_process import running_server
from tests.support.raw_producer import RawProducer
from tests.support.records import records_in
from tests.support.share_member import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    ShareMember,
    acquired,
    begin_group,
    configure,
    only_row,
)

GROUP, TOPIC = "workers", "orders"
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
    "group.share.delivery.count.limit": "2",
    "group.share.min.record.lock.duration.ms": "1000",
    "group.share.record.lock.duration.ms": "1000",
    "group.share.max.share.sessions": "3",
}
LONG_MS = 600_000


@pytest.fixture
async def server(tmp_path):
    """A running broker with the topic ``orders`` of two partitions."""
    async with running_server(tmp_path, SETTINGS) as running:
        await running.topic(TOPIC, partitions=2)
        yield running


@pytest.fixture
async def new_member(server):
    """Makes members of the group; each has a connection of its own."""
    topic_id = await begin_group(server, GROUP, TOPIC)

    async def make(name: str = "first", group: str = GROUP) -> ShareMember:
        return ShareMember(await server.connect(), group, name, topic_id)

    return make


async def write(server, count: int, partition: int = 0) -> None:
    """Write one batch, which is new."""
    values = [b"%d" % n for n in range(count)]
    now_ms = server.broker.now_ms()
    await server.produce(TOPIC, *values, partition=partition, timestamp=now_ms)


def share_of(server):
    """The share partition 0 of the group."""
    loaded = server.broker.share_partitions.loaded()
    [found] = [one for one in loaded if one.partition.index == 0]
    return found


def expire_locks(server) -> None:
    """Let every lock's time be up."""
    served = share_of(server)
    if served.share.expire(server.broker.share_partitions.now_ms() + LONG_MS):
        served.wake()
    server.broker.share_partitions.write(served)


async def test_a_member_gets_records_that_others_dont_get_meanwhile(server, new_member):
    first, second = await new_member(), await new_member("second")
    await write(server, 5)
    answer = await first.fetch(partitions=(0, 1))
    assert acquired(answer) == [(0, 4, 1)]
    assert answer.acquisition_lock_timeout_ms == 1000
    assert [one.value for one in records_in(only_row(answer).records)] == [
        b"0",
        b"1",
        b"2",
        b"3",
        b"4",
    ]
    assert not (await second.fetch(partitions=(0, 1))).responses


async def test_what_is_accepted_or_rejected_is_done_and_what_is_released_comes_again(
    server, new_member
):
    first, second = await new_member(), await new_member("second")
    await write(server, 6)
    await first.fetch(partitions=(0,))
    types = [ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, ACCEPT]
    assert not only_row(await first.acknowledge({0: [(0, 5, types)]})).error_code
    assert acquired(await second.fetch(partitions=(0,))) == [(2, 3, 2)]
    assert share_of(server).share.start_offset == 2
    row = only_row(await second.fetch({0: [(2, 3, [ACCEPT])]}))
    assert (row.acknowledge_error_code, row.acquired_records) == (0, [])
    assert share_of(server).share.start_offset == 6


async def test_the_last_delivery_is_the_limits(server, new_member):
    member = await new_member()
    await write(server, 1)
    for count in (1, 2):
        assert acquired(await member.fetch(partitions=(0,))) == [(0, 0, count)]
        await member.acknowledge({0: [(0, 0, [RELEASE])]})
    assert not acquired(await member.fetch())
    assert share_of(server).share.start_offset == 1


async def test_a_lock_ends_in_time_and_another_member_gets_the_records(server, new_member):
    first, second = await new_member(), await new_member("second")
    await write(server, 2)
    await first.fetch(partitions=(0,))
    with trio.fail_after(10):  # the second waits until the lock has ended by itself
        answer = await second.fetch(partitions=(0,), wait_ms=LONG_MS)
    assert acquired(answer) == [(0, 1, 2)]
    late = only_row(await first.acknowledge({0: [(0, 1, [ACCEPT])]}))
    assert late.error_code == ErrorCode.INVALID_RECORD_STATE


async def test_a_renewed_lock_begins_anew(server, new_member):
    first = await new_member()
    await write(server, 2)
    await first.fetch(partitions=(0,))
    before = share_of(server).share.runs[0].deadline_ms
    await until(lambda: server.broker.share_partitions.now_ms() > before - 1000)
    refused = only_row(await first.acknowledge({0: [(0, 1, [RENEW])]}))
    assert refused.error_code == ErrorCode.INVALID_REQUEST
    answer = await first.acknowledge({0: [(0, 1, [RENEW])]}, renews=True)
    assert (only_row(answer).error_code, answer.acquisition_lock_timeout_ms) == (0, 1000)
    assert share_of(server).share.runs[0].deadline_ms > before


async def test_a_fetch_waits_for_records_and_for_releases(server, new_member):
    first, second = await new_member(), await new_member("second")
    await first.fetch(partitions=(0,))
    async with trio.open_nursery() as nursery:

        async def wait() -> None:
            assert acquired(await second.fetch(partitions=(0,), wait_ms=LONG_MS)) == [(0, 2, 1)]

        nursery.start_soon(wait)
        await until(lambda: share_of(server).waiters)
        await write(server, 3)
    async with trio.open_nursery() as nursery:

        async def wait_again() -> None:
            assert acquired(await first.fetch(wait_ms=LONG_MS)) == [(1, 1, 2)]

        nursery.start_soon(wait_again)
        await until(lambda: share_of(server).waiters)
        await second.acknowledge({0: [(0, 2, [ACCEPT, RELEASE, ACCEPT])]})


async def test_a_fetch_waits_for_the_bytes_that_it_asks_for(server, new_member):
    """Meanwhile it acquires nothing; at the end of its time it takes what there is."""
    first, second = await new_member(), await new_member("second")
    await write(server, 2)
    answers = []

    async def fetch_much() -> None:
        answers.append(
            await first.fetch(partitions=(0, 1), wait_ms=LONG_MS, min_bytes=150, max_bytes=5000)
        )

    async with trio.open_nursery() as nursery:
        nursery.start_soon(fetch_much)
        await until(lambda: server.broker.share_partitions.loaded() and share_of(server).waiters)
        await write(server, 1, partition=1)
        await until(lambda: share_of(server).waiters)
        assert not answers
        assert acquired(await second.fetch(partitions=(0,), max_records=1, mode=1)) == [(0, 0, 1)]
        await write(server, 1, partition=1)
        with trio.fail_after(10):
            await until(lambda: answers)
    assert acquired(answers[0]) == [(1, 1, 1)]
    assert acquired(answers[0], 1) == [(0, 1, 1)]
    await first.fetch(wait_ms=1, min_bytes=5000)
    await write(server, 1)
    late = await first.fetch(wait_ms=50, min_bytes=5000)
    assert acquired(late) == [(2, 2, 1)]
    await write(server, 1)
    assert acquired(await first.fetch(wait_ms=0, min_bytes=5000)) == [(3, 3, 1)]


async def test_the_end_of_a_session_releases_as_not_delivered(server, new_member):
    first, second = await new_member(), await new_member("second")
    await write(server, 3)
    await first.fetch(partitions=(0,))
    first.epoch = -1
    row = only_row(await first.acknowledge({0: [(0, 0, [ACCEPT])]}))
    assert not row.error_code
    assert acquired(await second.fetch(partitions=(0,))) == [(1, 2, 1)]
    second.epoch = -1
    assert only_row(await second.fetch({0: [(1, 1, [ACCEPT])]})).acknowledge_error_code == 0
    third = await new_member("third")
    assert acquired(await third.fetch(partitions=(0,))) == [(2, 2, 1)]


async def test_a_session_ends_with_its_connection(server, new_member):
    first, second = await new_member(), await new_member("second")
    await write(server, 3)
    await first.fetch(partitions=(0,))
    await first.client.aclose()
    with trio.fail_after(10):
        answer = await second.fetch(partitions=(0,), wait_ms=LONG_MS)
    assert acquired(answer) == [(0, 2, 1)]
    assert len(server.broker.share_partitions.sessions) == 1


async def test_epochs_and_limits_of_sessions(server, new_member):
    member = await new_member()
    member.epoch = 4
    assert (await member.fetch()).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert (await member.acknowledge({})).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    member.epoch = 0
    assert (await member.acknowledge({})).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    answer = await member.fetch({0: [(0, 0, [ACCEPT])]})
    assert answer.error_code == ErrorCode.INVALID_REQUEST
    assert not (await member.fetch(partitions=(0,))).error_code
    member.epoch = 7
    assert (await member.fetch()).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    others = [await new_member(f"other-{n}") for n in range(3)]
    errors = [(await one.fetch(partitions=(0,))).error_code for one in others]
    assert errors == [0, 0, ErrorCode.SHARE_SESSION_LIMIT_REACHED]
    nobody = await new_member("")
    assert (await nobody.fetch()).error_code == ErrorCode.INVALID_REQUEST


async def test_forgotten_partitions_are_not_fetched(server, new_member):
    member = await new_member()
    await member.fetch(partitions=(0, 1))
    await write(server, 1, partition=1)
    gone = ForgottenTopic(topic_id=member.topic_id, partitions=[1])
    assert not (await member.fetch(forgotten_topics_data=[gone])).responses


@pytest.mark.parametrize(
    "batches",
    [
        [(3, 2, [1])],
        [(0, 2, [1]), (2, 4, [1])],
        [(0, 2, [1, 1])],
        [(0, 2, [])],
        [(0, 2, [7])],
        [(0, 99, [1])],
    ],
)
async def test_acknowledgements_that_make_no_sense_change_nothing(server, new_member, batches):
    member = await new_member()
    await write(server, 5)
    await member.fetch(partitions=(0,))
    row = only_row(await member.acknowledge({0: batches}))
    assert row.error_code == ErrorCode.INVALID_REQUEST
    assert share_of(server).share.in_flight == 5


async def test_max_records_is_exact_only_if_asked_for(server, new_member):
    first, second = await new_member(), await new_member("second")
    for _ in range(3):
        await write(server, 4)
    assert acquired(await first.fetch(partitions=(0,), max_records=5)) == [(0, 7, 1)]
    assert acquired(await second.fetch(partitions=(0,), max_records=3, mode=1)) == [(8, 10, 1)]
    assert acquired(await first.fetch()) == [(11, 11, 1)]


async def test_a_result_has_at_most_a_batch_of_the_client(server, new_member):
    member = await new_member()
    for _ in range(3):
        await write(server, 4)
    answer = await member.fetch(partitions=(0,), batch_size=8)
    assert acquired(answer) == [(0, 7, 1), (8, 11, 1)]


async def test_deleted_records_are_past(server, new_member):
    member = await new_member()
    await write(server, 4)
    await write(server, 4)
    await member.fetch(partitions=(0,))
    wanted = DeleteRecordsPartition(partition_index=0, offset=6)
    topic = DeleteRecordsTopic(name=TOPIC, partitions=[wanted])
    request = DeleteRecordsRequest(topics=[topic], timeout_ms=10_000)
    await server.request(request, 2, DeleteRecordsResponse)
    assert not (await member.fetch()).responses
    assert share_of(server).share.start_offset == 6
    assert not only_row(await member.acknowledge({0: [(0, 7, [ACCEPT])]})).error_code
    assert share_of(server).share.start_offset == 8


@pytest.mark.parametrize("commits", [True, False])
async def test_aborted_records_and_markers(server, new_member, commits):
    if commits:
        assert not await configure(server, GROUP, "share.isolation.level", "read_committed")
    producer = RawProducer(await server.connect(), "ledger")
    await producer.init()
    await producer.produce(TOPIC, 0, b"aborted")
    await producer.end(committed=False)
    await producer.produce(TOPIC, 0, b"committed")
    await producer.end(committed=True)
    await write(server, 1)
    member = await new_member()
    answer = await member.fetch(partitions=(0,))
    found = acquired(answer)
    while answer.responses:  # a fetch reads one segment
        answer = await member.fetch()
        found += acquired(answer)
    offsets = [one for first, last, _ in found for one in range(first, last + 1)]
    assert offsets == ([2, 4] if commits else [0, 2, 4])
    answer = await member.acknowledge({0: [(one, one, [ACCEPT]) for one in offsets]})
    assert not only_row(answer).error_code
    assert share_of(server).share.start_offset == 5


async def test_the_open_end_is_not_for_who_reads_committed(server, new_member):
    assert not await configure(server, GROUP, "share.isolation.level", "read_committed")
    producer = RawProducer(await server.connect(), "ledger")
    await producer.init()
    await producer.produce(TOPIC, 0, b"open")
    member = await new_member()
    assert not acquired(await member.fetch(partitions=(0,)))
    await producer.end(committed=True)
    assert acquired(await member.fetch(wait_ms=LONG_MS)) == [(0, 0, 1)]


@pytest.mark.parametrize(
    ("reset", "start"),
    [("latest", 3), ("earliest", 0), ("by_duration:PT1H", 0), ("by_duration:PT-1H", 3)],
)
async def test_a_group_without_an_offset_begins_where_its_setting_says(server, reset, start):
    assert not await configure(server, "new", "share.auto.offset.reset", reset)
    await write(server, 3)
    topic_id = await begin_group(server, "new", TOPIC, -1)
    member = ShareMember(await server.connect(), "new", "first", topic_id)
    await member.fetch(partitions=(0,))
    served = share_of(server)
    assert (served.share.start_offset, served.share.next_new >= start) == (start, True)
    summary = await server.broker.persister.read_summary(served.share.key)
    assert summary.start_offset == start


async def test_another_start_delivers_what_was_not_accepted(tmp_path):
    async with running_server(tmp_path, SETTINGS) as running:
        await running.topic(TOPIC)
        topic_id = await begin_group(running, GROUP, TOPIC)
        member = ShareMember(await running.connect(), GROUP, "first", topic_id)
        await write(running, 6)
        await member.fetch(partitions=(0,))
        await member.acknowledge({0: [(0, 1, [ACCEPT]), (3, 3, [ACCEPT]), (4, 4, [RELEASE])]})
    async with running_server(tmp_path, SETTINGS) as running:
        member = ShareMember(await running.connect(), GROUP, "second", topic_id)
        answer = await member.fetch(partitions=(0,))
        while not answer.responses or only_row(answer).error_code:
            answer = await member.fetch()
        assert acquired(answer) == [(2, 2, 1), (4, 4, 2), (5, 5, 1)]


async def test_a_group_that_nobody_began_and_a_topic_that_is_gone(server, new_member):
    stranger = await new_member(group="strangers")
    row = only_row(await stranger.fetch(partitions=(0,)))
    assert row.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    member = await new_member()
    await write(server, 1)
    await member.fetch(partitions=(0,))
    await server.delete_topic(TOPIC)
    row = only_row(await member.fetch())
    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_ID
    row = only_row(await member.acknowledge({0: [(0, 0, [ACCEPT])]}))
    assert row.error_code == ErrorCode.UNKNOWN_TOPIC_ID


async def test_a_state_that_began_anew_replaces_what_is_in_flight(server, new_member):
    member = await new_member()
    await write(server, 4)
    await member.fetch(partitions=(0,))
    key = share_of(server).share.key
    await server.broker.persister.initialize(key, 1, 0)
    row = only_row(await member.acknowledge({0: [(0, 3, [ACCEPT])]}))
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert acquired(await member.fetch()) == [(0, 3, 1)]


async def test_offsets_that_are_altered_while_a_group_is_empty_count(server, new_member):
    first = await new_member()
    await write(server, 3)
    await first.fetch(partitions=(0, 1))
    await first.acknowledge({0: [(0, 2, [ACCEPT])]})
    first.epoch = -1
    await first.acknowledge({})
    assert not server.broker.share_partitions.loaded()
    for index in (0, 1):
        key = SharePartitionKey(GROUP, first.topic_id, index)
        await server.broker.persister.initialize(key, 1, 1)
    second = await new_member("second")
    assert acquired(await second.fetch(partitions=(0,))) == [(1, 2, 1)]
    await second.client.aclose()
    await until(lambda: not server.broker.share_partitions.loaded())


async def test_share_partitions_stay_while_a_member_of_the_group_is_left(server, new_member):
    first, second = await new_member(), await new_member("second")
    await first.fetch(partitions=(0,))
    await second.fetch(partitions=(1,))
    first.epoch = -1
    await first.fetch()
    assert len(server.broker.share_partitions.loaded()) == 2


async def test_many_partitions_of_a_session_are_released(server, new_member):
    await server.topic("many", partitions=AT_ONCE + 5)
    topic_id = await begin_group(server, GROUP, "many")
    first = ShareMember(await server.connect(), GROUP, "first", topic_id)
    await first.fetch(partitions=tuple(range(AT_ONCE + 5)))
    assert len(server.broker.share_partitions.loaded()) == AT_ONCE + 5
    first.epoch = -1
    await first.fetch()
    await until(lambda: not server.broker.share_partitions.loaded())


async def test_clients_try_again_where_a_coordinator_is_missing(server, new_member, monkeypatch):
    member = await new_member()
    monkeypatch.setattr(persister, "TRIES", 1)
    server.broker.share_states.close()
    row = only_row(await member.fetch(partitions=(0, 1)))  # one has been tried long enough
    assert row.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    other = only_row(await member.fetch())
    assert other.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert {row.partition_index, other.partition_index} == {0, 1}


async def test_the_lock_limit_holds(server, new_member):
    assert not await configure(server, GROUP, "share.partition.max.record.locks", "100")
    member = await new_member()
    for _ in range(5):
        await write(server, 40)
    answer = await member.fetch(partitions=(0,))
    assert acquired(answer)[-1][1] == 119  # the batch in which the limit is reached is whole
    assert not acquired(await member.fetch())
    await member.acknowledge({0: [(0, 39, [ACCEPT])]})
    assert acquired(await member.fetch()) == [(120, 159, 1)]


async def test_nobody_fetches_while_share_groups_are_switched_off(server, new_member):
    lowered = FeatureUpdateKey(feature="share.version", max_version_level=0, upgrade_type=2)
    request = UpdateFeaturesRequest(feature_updates=[lowered])
    assert not (await server.request(request, 2, UpdateFeaturesResponse)).error_code
    member = await new_member()
    assert (await member.fetch(partitions=(0,))).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert (await member.acknowledge({})).error_code == ErrorCode.UNSUPPORTED_VERSION
