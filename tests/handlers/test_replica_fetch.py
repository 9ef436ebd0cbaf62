"""Fetch by followers: what they are told, what their fetches move, and who is refused."""

from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.broker.replica.replica_sessions import MOST_OF_A_BROKER
from kwire.errors import ErrorCode
from kwire.protocol.messages.fetch import FetchResponse
from tests.handlers.followers import BROKER_EPOCH, NOW_MS, VERSION, at, leading, offsets


async def test_followers_read_beyond_the_high_watermark_and_move_it(tmp_path: Path) -> None:
    """The fetch from an offset acknowledges all before it."""
    async with leading(tmp_path) as leader:
        leader.append(3)
        first, second = await leader.follower(2), await leader.follower(3)
        told = await first.fetch(at(0))
        assert offsets(told[0]) == [0, 1, 2]
        assert told[0].high_watermark == 0
        await first.fetch(at(3))
        assert leader.partition().high_watermark == 0
        told = await second.fetch(at(2))
        assert offsets(told[0]) == [2]
        assert told[0].high_watermark == leader.partition().high_watermark == 2


async def test_a_session_tells_only_news(tmp_path: Path) -> None:
    """Records, high watermarks and log start offsets; quiet partitions cost nothing."""
    async with leading(tmp_path, partitions=3) as leader:
        follower, other = await leader.follower(2), await leader.follower(3)
        follower.session_epoch = 0
        told = await follower.fetch(*(at(0, index) for index in range(3)))
        assert set(told) == {0, 1, 2}
        assert follower.session_id
        assert await follower.fetch() == {}
        leader.append(2, index=1)
        told = await follower.fetch()
        assert {index: offsets(data) for index, data in told.items()} == {1: [0, 1]}
        told = await follower.fetch()
        assert offsets(told[1]) == [0, 1], "it hasn't said that it has them"
        assert await follower.fetch(at(2, 1)) == {}
        await other.fetch(at(2, 1))
        told = await follower.fetch()
        assert {index: data.high_watermark for index, data in told.items()} == {1: 2}
        leader.partition(1).delete_records(1)
        told = await follower.fetch()
        assert {index: data.log_start_offset for index, data in told.items()} == {1: 1}
        leader.append(1, index=2)
        leader.append(1, index=0)
        told = await follower.fetch(forgotten=(2,))
        assert set(told) == {0}


async def test_a_fetch_waits_for_an_append(tmp_path: Path) -> None:
    """It is answered when there are records, long before its time is up."""
    async with leading(tmp_path) as leader, trio.open_nursery() as nursery:
        follower = await leader.follower()
        follower.session_epoch = 0
        await follower.fetch(at(0))
        follower.wait_ms = 60_000
        told = []

        async def fetch() -> None:
            told.append(await follower.fetch())

        nursery.start_soon(fetch)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert not told
        leader.append()
        with trio.fail_after(10):
            while not told:
                await trio.testing.wait_all_tasks_blocked()
        assert offsets(told[0][0]) == [0]


async def test_a_follower_that_asks_anew_leaves_nothing_of_its_waiting_fetch(
    tmp_path: Path,
) -> None:
    """It gives up a fetch whose session told a new partition, for one with more partitions."""
    async with leading(tmp_path, partitions=3) as leader, trio.open_nursery() as nursery:
        follower = await leader.follower()
        follower.session_epoch = 0
        await follower.fetch(at(0, high_watermark=0))
        follower.wait_ms = 60_000
        refused = []

        async def wait_in_vain() -> None:
            with pytest.raises(AssertionError):
                await follower.fetch(at(0, 1, high_watermark=0))
            refused.append(True)

        nursery.start_soon(wait_in_vain)
        await trio.testing.wait_all_tasks_blocked(0.05)
        again = await leader.follower()
        again.session_id, again.session_epoch, again.wait_ms = follower.session_id, 0, 0
        await again.fetch(*(at(0, index, high_watermark=0) for index in range(3)))
        with trio.fail_after(10):
            while not refused:
                await trio.testing.wait_all_tasks_blocked()
        waiters = [len(leader.partition(index).replica_waiters) for index in range(3)]
        assert waiters == [1, 1, 1]


async def test_a_follower_that_wants_no_bytes_gets_one_batch_at_a_time(tmp_path: Path) -> None:
    """``replica.fetch.response.max.bytes`` may be 0; replication goes on."""
    async with leading(tmp_path) as leader:
        follower = await leader.follower()
        follower.session_epoch = follower.max_bytes = 0
        await follower.fetch(at(0))
        leader.append(1)
        assert offsets((await follower.fetch())[0]) == [0]


async def test_as_many_bytes_as_a_follower_wants_are_enough(tmp_path: Path) -> None:
    """It is answered at once, in a new session and in one that goes on."""
    async with leading(tmp_path) as leader:
        follower = await leader.follower()
        follower.session_epoch = 0
        follower.wait_ms = 60_000
        leader.append()
        follower.min_bytes = leader.partition().log.active.size_bytes
        with trio.fail_after(10):
            for offset in range(3):
                assert offsets((await follower.fetch(at(offset)))[0]) == [offset]
                leader.append()


@pytest.mark.parametrize("tells", [True, False])
async def test_a_stale_high_watermark_is_answered_soon(tmp_path: Path, tells: bool) -> None:
    """If the follower tells it (KIP-1166); otherwise it comes with the next answer."""
    async with leading(tmp_path) as leader, trio.open_nursery() as nursery:
        follower, other = await leader.follower(2), await leader.follower(3)
        leader.append()
        follower.session_epoch = 0
        await follower.fetch(at(0))
        follower.wait_ms = 60_000 if tells else 1_500
        fields = {"high_watermark": 0} if tells else {}
        told = []

        async def fetch() -> None:
            told.append(await follower.fetch(at(1, **fields)))

        nursery.start_soon(fetch)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert not told
        await other.fetch(at(1))
        if not tells:
            await trio.testing.wait_all_tasks_blocked(0.05)
            assert not told
        with trio.fail_after(10):
            while not told:
                await trio.testing.wait_all_tasks_blocked()
        assert told[0][0].high_watermark == 1


async def test_a_log_that_diverges_is_told_so_and_acknowledges_nothing(tmp_path: Path) -> None:
    """KIP-595: the follower has records of epoch 0 that this leader hasn't."""
    async with leading(tmp_path) as leader:
        leader.append(2)
        await leader.change(leader_epoch=4)
        leader.append(2)
        follower = await leader.follower()
        told = (await follower.fetch(at(4, last_fetched_epoch=1, current_leader_epoch=4)))[0]
        assert told.diverging_epoch is not None
        assert (told.diverging_epoch.epoch, told.diverging_epoch.end_offset) == (1, 2)
        assert not bytes(told.records)
        assert leader.partition().followers[2].end_offset == -1
        told = (await follower.fetch(at(2, last_fetched_epoch=1, current_leader_epoch=4)))[0]
        assert told.diverging_epoch is None
        assert offsets(told) == [2, 3]
        assert leader.partition().followers[2].end_offset == 2


@pytest.mark.parametrize("ended", [(3, 1), (2, 3), None], ids=["records", "an epoch", "no cut"])
async def test_a_follower_that_ignored_an_answer_is_told_again(
    tmp_path: Path, ended: tuple[int, int] | None
) -> None:
    """Its high watermark doesn't wait for the next record, after a cut or in a new leader epoch.

    It may cut records, or only an epoch in which it led and wrote none.
    """
    async with leading(tmp_path) as leader:
        leader.append(2)
        follower, other = await leader.follower(2), await leader.follower(3)
        follower.session_epoch = 0
        await follower.fetch(at(2, last_fetched_epoch=1))
        await other.fetch(at(2))
        assert (await follower.fetch())[0].high_watermark == 2
        await leader.change(leader_epoch=4)
        if ended is not None:
            end, epoch = ended
            told = await follower.fetch(at(end, last_fetched_epoch=epoch, current_leader_epoch=4))
            assert told[0].diverging_epoch is not None
        told = await follower.fetch(at(2, last_fetched_epoch=1, current_leader_epoch=4))
        assert told[0].high_watermark == 2
        assert await follower.fetch() == {}


async def test_who_is_refused(tmp_path: Path) -> None:
    """By leader epoch, broker epoch, assignment and offset; nothing is noted of such fetches."""
    async with leading(tmp_path) as leader:
        follower, stranger = await leader.follower(2), await leader.follower(9)
        leader.append()
        assert await follower.code(at(0, current_leader_epoch=0)) == ErrorCode.FENCED_LEADER_EPOCH
        assert await follower.code(at(0, current_leader_epoch=2)) == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert await follower.code(at(2)) == ErrorCode.OFFSET_OUT_OF_RANGE
        assert await follower.code(at(0, last_fetched_epoch=9)) == ErrorCode.OFFSET_OUT_OF_RANGE
        assert await follower.code(at(0, 7)) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await stranger.code(at(0)) == ErrorCode.UNKNOWN_LEADER_EPOCH
        moved = ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert await stranger.code(at(0, current_leader_epoch=-1)) == moved
        follower.epoch = 4
        assert await follower.code(at(1)) == moved
        assert leader.partition().followers[2].end_offset == -1


async def test_an_epoch_that_nobody_has_doesnt_count(tmp_path: Path) -> None:
    """It would be newer than all true ones for ever, and end the follower's true sessions."""
    async with leading(tmp_path) as leader:
        follower, liar = await leader.follower(2), await leader.follower(2)
        follower.session_epoch = liar.session_epoch = 0
        liar.epoch = 1 << 60
        leader.append()
        await follower.fetch(at(0))
        assert await liar.code(at(1)) == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert liar.session_id == 0
        assert leader.partition().followers[2].broker_epoch == BROKER_EPOCH
        await follower.fetch(at(1))
        assert leader.partition().followers[2].end_offset == 1


async def test_who_isnt_registered_has_no_session(tmp_path: Path) -> None:
    """Made-up node ids would fill the sessions of all followers."""
    async with leading(tmp_path) as leader:
        for node_id in range(9, 30):
            stranger = await leader.follower(node_id)
            stranger.session_epoch = 0
            assert await stranger.code(at(0)) == ErrorCode.UNKNOWN_LEADER_EPOCH
        assert len(leader.broker.replica_sessions) == 0


async def test_an_error_in_a_session_lasts_until_its_cause_is_gone(tmp_path: Path) -> None:
    """And the fetch that then succeeds is noted, although the follower told it once."""
    async with leading(tmp_path) as leader:
        follower = await leader.follower()
        leader.append()
        follower.session_epoch = 0
        for _ in range(2):
            (data,) = (await follower.fetch(at(0, current_leader_epoch=2))).values()
            assert data.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
        await leader.change(leader_epoch=2)
        told = await follower.fetch()
        assert offsets(told[0]) == [0]
        assert leader.partition().followers[2].end_offset == 0
        await leader.change(leader_epoch=3)
        (data,) = (await follower.fetch()).values()
        assert data.error_code == ErrorCode.FENCED_LEADER_EPOCH


async def test_a_small_answer_is_fair_and_notes_everything(tmp_path: Path) -> None:
    """Partitions without room come first in the next answer; what followers tell counts at once."""
    async with leading(tmp_path, partitions=3) as leader:
        for index in range(3):
            leader.append(3, index=index, size_bytes=1000)
        follower = await leader.follower()
        follower.session_epoch = 0
        follower.max_bytes = 1
        seen = []
        told = await follower.fetch(*(at(index, index) for index in range(3)))
        assert [leader.partition(index).followers[2].end_offset for index in range(3)] == [0, 1, 2]
        seen += [index for index, data in told.items() if bytes(data.records)]
        for _ in range(5):
            seen += await follower.fetch()
        assert seen == [0, 1, 2, 0, 1, 2]


@pytest.mark.parametrize("what", ["epoch", "id", "node"])
async def test_sessions_are_checked(tmp_path: Path, what: str) -> None:
    """KIP-227; and nobody goes on with another broker's session."""
    async with leading(tmp_path) as leader:
        follower = await leader.follower()
        follower.session_epoch = 0
        await follower.fetch(at(0))
        if what == "epoch":
            follower.session_epoch += 1
        elif what == "id":
            follower.session_id ^= 1
        else:
            follower.node_id = 3
        response = await follower.raw.request(follower.request(), VERSION, FetchResponse)
        assert response.error_code == (
            ErrorCode.INVALID_FETCH_SESSION_EPOCH
            if what == "epoch"
            else ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        )


async def test_sessions_are_bounded(tmp_path: Path) -> None:
    """A broker has few; one without room is served without; and a newer registration ends them."""
    settings = {"kwire.fetch.session.cache.max.partitions": "20"}
    async with leading(tmp_path, settings, partitions=3) as leader:
        sessions = leader.broker.replica_sessions
        for _ in range(20):
            follower = await leader.follower()
            follower.session_epoch = 0
            await follower.fetch(at(0), at(0, 1), at(0, 2))
        assert follower.session_id == 0
        assert len(sessions) == 6
        assert len(leader.partition().replica_waiters) == 6
        await leader.register(2, epoch=6)
        follower.epoch, follower.session_epoch = 6, 0
        await follower.fetch(at(0))
        assert follower.session_id
        assert len(sessions) == len(leader.partition().replica_waiters) == 1


async def test_the_oldest_session_of_a_broker_makes_room(tmp_path: Path) -> None:
    """Its fetcher has begun anew since, so nobody uses that one."""
    async with leading(tmp_path) as leader:
        ids = []
        for _ in range(MOST_OF_A_BROKER + 1):
            follower = await leader.follower()
            follower.session_epoch = 0
            await follower.fetch(at(0))
            ids.append(follower.session_id)
        kept = [one in leader.broker.replica_sessions for one in ids]
        assert kept == [False] + [True] * MOST_OF_A_BROKER


async def test_a_follower_that_catches_up_is_in_sync_soon(tmp_path: Path) -> None:
    """The leader commits it, and counts it for the high watermark from its fetch on."""
    async with leading(tmp_path, isr=(1, 2)) as leader:
        follower, other = await leader.follower(2), await leader.follower(3)
        leader.append(2)
        await follower.fetch(at(2))
        assert leader.partition().high_watermark == 2
        await other.fetch(at(1))
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert leader.row().isr == (1, 2)
        await other.fetch(at(2))
        while leader.row().isr != (1, 2, 3):
            await trio.testing.wait_all_tasks_blocked()
        assert leader.partition().in_sync == (1, 2, 3)
        assert leader.broker.alter_partition_manager.expands == 1


async def test_consumers_see_what_is_replicated(tmp_path: Path) -> None:
    """A partition of one replica refuses followers, one with followers shows committed records."""
    async with leading(tmp_path) as leader:
        leader.append()
        partition = leader.partition()
        assert partition.read(0, 100, read_committed=False, min_one_batch=True) is None
        for node_id in (2, 3):
            await (await leader.follower(node_id)).fetch(at(1))
        assert partition.read(0, 100, read_committed=False, min_one_batch=True) is not None


@pytest.mark.parametrize("size_bytes", [10, 3000])
async def test_a_follower_reads_on_where_it_ended(tmp_path: Path, size_bytes: int) -> None:
    """Each batch once and in order: over new segments, in small answers, and from elsewhere."""
    async with leading(tmp_path) as leader:
        follower = await leader.follower()
        follower.session_epoch = 0
        partition = leader.partition()
        have: list[int] = []
        fields = {"max_bytes": 5000}
        await follower.fetch(at(0, **fields))
        for number in range(12):
            leader.append(1 + number % 3, size_bytes=size_bytes)
            if number % 4 == 3:
                partition.log.roll(NOW_MS)
            if number == 7:
                have = have[:2]  # it had to cut its log
            while len(have) < partition.log.log_end_offset:
                have += offsets((await follower.fetch(at(len(have), **fields)))[0])
            assert have == list(range(partition.log.log_end_offset))


async def test_a_session_goes_on_in_a_new_broker_epoch(tmp_path: Path) -> None:
    """A follower that has registered again names no quiet partition: what it told still holds, and
    counts for the new epoch. Otherwise it would never be in sync there (KIP-903)."""
    async with leading(tmp_path, partitions=2) as leader:
        follower = await leader.follower(2)
        follower.session_epoch = 0
        await follower.fetch(at(0, 0), at(0, 1))
        follower.epoch = BROKER_EPOCH + 1
        await leader.register(2, follower.epoch)
        await follower.fetch()
        for index in range(2):
            known = leader.partition(index).followers[2]
            assert known.broker_epoch == follower.epoch
