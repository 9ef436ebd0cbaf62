"""A broker that fetches from a leader, which is a script."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from kwire.config.broker import BrokerConfig
from kwire.errors import ErrorCode
from kwire.log.checkpoints import RECOVERY_POINTS, read_offsets
from kwire.log.disk import Disk
from kwire.protocol.messages.fetch import EpochEndOffset, FetchRequest
from kwire.protocol.messages.list_offsets import ListOffsetsRequest
from kwire.protocol.types import Request, Response
from kwire.testing.waiting import until
from tests.broker.following import (
    EPOCH,
    LEADER,
    NODE,
    NOW_MS,
    SESSION,
    Following,
    answer,
    batch_at,
)
from tests.support.log_scan import check_log


@pytest.fixture(autouse=True, params=[False, True], ids=["slowly", "quickly"])
def fast_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether what is common goes over the fast path: each test holds for both."""
    monkeypatch.setitem(HOW, "has_poller", request.param)
    return HOW["has_poller"]


HOW = {"has_poller": False}


@asynccontextmanager
async def following(tmp_path: Path, **config: Any) -> AsyncIterator[Following]:
    """A broker that follows; its logs are checked at the end."""
    async with trio.open_nursery() as nursery:
        made = Following(nursery, tmp_path / "data", **HOW, **config)
        yield made
        for log in made.log_manager.logs.values():
            check_log(log, has_gaps=True)
        nursery.cancel_scope.cancel()
    made.log_manager.close(NOW_MS, clean=False)


async def asks(broker: Following, offset: int, index: int = 0) -> None:
    """Wait until the leader is asked for this offset, and keeps the follower waiting."""

    def is_asked() -> bool:
        request = broker.waiting
        return request is not None and any(
            (found.partition, found.fetch_offset) == (index, offset)
            for topic in request.topics
            for found in topic.partitions
        )

    await until(is_asked, what=f"a fetch from {offset}")


async def test_a_follower_writes_what_its_leader_answers(tmp_path: Path) -> None:
    """And takes its high watermark and log start offset, as far as its own log goes."""
    async with following(tmp_path) as broker:
        partition = broker.follower()
        broker.follow(partition)
        await asks(broker, 0)
        first = broker.waiting
        assert first is not None
        assert first.replica_state is not None
        assert (first.replica_state.replica_id, first.replica_state.replica_epoch) == (NODE, 41)
        assert (first.session_id, first.session_epoch, first.min_bytes) == (0, 0, 1)
        data = batch_at(0, b"a", b"b") + batch_at(2, b"c")
        broker.says(answer(records=data, high_watermark=9, log_start_offset=1))
        await asks(broker, 3)
        assert partition.log.log_end_offset == 3
        assert (partition.high_watermark, partition.log.log_start_offset) == (3, 1)
        second = broker.waiting
        assert second is not None
        assert (second.session_id, second.session_epoch) == (SESSION, 1)
        assert second.topics[0].partitions[0].last_fetched_epoch == EPOCH
        broker.says(answer(records=batch_at(3, b"d"), high_watermark=2))
        await asks(broker, 4)
        assert partition.high_watermark == 3


async def test_what_has_to_be_on_the_disk_is_before_the_next_fetch(tmp_path: Path) -> None:
    """The next fetch tells the leader that this follower has it (flush.messages)."""
    async with following(tmp_path, flush_messages=1) as broker:
        partition = broker.follower()
        broker.follow(partition)
        await asks(broker, 0)
        broker.says(answer(records=batch_at(0, b"a", b"b")))
        await asks(broker, 2)
        assert partition.log.recovery_point == 2


async def test_what_has_to_be_on_the_disk_is_before_another_leader_is_asked(tmp_path: Path) -> None:
    """The leader has changed while the flush of the last answer was under way."""
    async with following(tmp_path, flush_messages=1) as broker:
        partition = broker.follower()
        partition.append(batch_at(0, b"a", b"b"), NOW_MS)
        broker.follow(partition)
        await asks(broker, 2)
        assert partition.log.recovery_point == 2


async def test_a_diverging_end_is_cut_before_the_watermark_is_taken(tmp_path: Path) -> None:
    """Or the watermark would lie in records that the leader doesn't have (KAFKA-14704)."""
    async with following(tmp_path) as broker:
        partition = broker.follower()
        for base, epoch in ((0, 1), (2, 1), (4, 3)):
            partition.append(batch_at(base, b"x", b"y", epoch=epoch), 0)
        partition.log.flush(0)
        broker.log_manager.checkpoint(dict)
        broker.follow(partition)
        await asks(broker, 6)
        diverging = EpochEndOffset(epoch=1, end_offset=3)
        broker.says(answer(diverging_epoch=diverging, high_watermark=6))
        await asks(broker, 2)
        assert partition.log.leader_epochs.entries == [(1, 0)]
        assert partition.high_watermark == 0
        points = read_offsets(tmp_path / "data" / RECOVERY_POINTS, Disk())
        assert points["t", 0] < 3
        broker.says(answer(records=batch_at(2, b"new", epoch=2), high_watermark=3))
        await asks(broker, 3)
        assert partition.high_watermark == 3
        assert partition.log.leader_epochs.entries == [(1, 0), (2, 2)]


async def test_a_follower_outside_of_its_leaders_log_finds_into_it(tmp_path: Path) -> None:
    """Anew at the leader's start if it ends before that, cut if it ends after the leader's end."""
    async with following(tmp_path) as broker:
        partition = broker.follower()
        partition.append(batch_at(0, b"a", b"b"), 0)
        broker.ends = (50, 70)
        broker.follow(partition)
        await asks(broker, 2)
        broker.says(answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
        await asks(broker, 50)
        assert partition.log.log_start_offset == partition.high_watermark == 50
        broker.says(answer(records=batch_at(50, b"a", b"b", b"c")))
        await asks(broker, 53)
        broker.ends = (40, 51)
        broker.says(answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
        await asks(broker, 50)


async def test_a_follower_of_a_leader_without_any_record_has_none(tmp_path: Path) -> None:
    """Offset 0 is an end as any other: an unclean leader may have lost everything."""
    async with following(tmp_path) as broker:
        partition = broker.follower()
        partition.append(batch_at(0, b"a", b"b"), 0)
        broker.ends = (0, 0)
        broker.follow(partition)
        await asks(broker, 2)
        broker.says(answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
        await asks(broker, 0)
        assert partition.log.log_end_offset == 0


async def test_an_empty_log_begins_with_the_batch_that_holds_its_start(tmp_path: Path) -> None:
    """Records were deleted up to the middle of a batch; the batch comes as a whole."""
    async with following(tmp_path) as broker:
        partition = broker.follower()
        broker.ends = (5, 9)
        broker.follow(partition)
        await asks(broker, 0)
        broker.says(answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
        await asks(broker, 5)
        data = batch_at(3, b"3", b"4", b"5", b"6")
        broker.says(answer(records=data, high_watermark=7, log_start_offset=5))
        await asks(broker, 7)
        assert (partition.log.log_start_offset, partition.log.log_end_offset) == (5, 7)


async def test_a_damaged_answer_is_fetched_again(tmp_path: Path) -> None:
    """Nothing of it is written."""
    async with following(tmp_path) as broker:
        partition = broker.follower()
        broker.follow(partition)
        await asks(broker, 0)
        good = batch_at(0, b"a", b"b")
        broker.says(answer(records=good[:-1] + b"\x7f"), answer(index=7))
        await until(lambda: len(broker.fetched) == 2)
        broker.says(answer(records=good))
        await asks(broker, 2)


async def test_a_lost_connection_begins_a_new_session(tmp_path: Path) -> None:
    """In place of the old one, which the leader may still have."""
    async with following(tmp_path) as broker:
        partition = broker.follower()
        broker.follow(partition)
        await asks(broker, 0)
        broker.says(answer(records=batch_at(0, b"a")), None)
        await until(lambda: len(broker.leader.opened) > 1)
        await asks(broker, 1)
        request = broker.waiting
        assert request is not None
        assert (request.session_id, request.session_epoch) == (SESSION, 0)


async def test_a_partition_that_is_added_doesnt_wait_for_an_answer(tmp_path: Path) -> None:
    """The leader keeps the fetch of another partition waiting; that one is given up."""
    async with following(tmp_path) as broker:
        broker.follow(broker.follower(0))
        await asks(broker, 0)
        broker.follow(broker.follower(1))
        await asks(broker, 0, index=1)
        assert broker.fetched == []
        assert len(broker.leader.opened) == 2


async def test_a_partition_that_is_added_joins_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A leader that answers anyway is asked on in the same session, on the same connection."""
    monkeypatch.setattr("kwire.broker.replica.fetcher.GRACE_S", 25.0)
    async with following(tmp_path) as broker:
        broker.follow(broker.follower(0))
        await asks(broker, 0)
        broker.follow(broker.follower(1))
        broker.says(answer())
        await asks(broker, 0, index=1)
        request = broker.waiting
        assert request is not None
        assert (request.session_id, request.session_epoch) == (SESSION, 1)
        assert len(request.topics[0].partitions) == len(broker.leader.opened) == 1


async def test_several_tasks_fetch_from_one_leader(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each partition by one of them, on a connection of its own; also after a change."""
    monkeypatch.setattr(
        "kwire.broker.replica.fetcher.GRACE_S", 25.0
    )  # the first one asks no more here
    async with following(tmp_path) as broker:
        partitions = [broker.follower(index) for index in range(8)]
        broker.follow(*partitions)
        await asks(broker, 0, index=7)
        before = len(broker.leader.requests)
        broker.config = BrokerConfig.load({"num.replica.fetchers": "3"})
        broker.fetchers.place(())

        def begun() -> list[set[int]]:
            return [
                {one.partition for topic in request.topics for one in topic.partitions}
                for _, request, _ in broker.leader.requests[before:]
                if isinstance(request, FetchRequest) and not request.session_epoch
            ]

        await until(lambda: len(begun()) == 2)
        second, third = begun()
        assert second
        assert third
        assert not second & third
        assert second | third < set(range(8)), "the first task keeps the others"
        assert broker.fetchers.leaders == [LEADER]


async def test_nothing_is_fetched_for_roles_that_are_over(tmp_path: Path) -> None:
    """The task ends with its last partition; a partition without a leader waits for one."""
    async with following(tmp_path) as broker:
        first, second = broker.follower(0), broker.follower(1)
        broker.follow(first, second)
        await asks(broker, 0, index=1)
        assert broker.fetchers.leaders == [LEADER]
        first.delete()
        second.leader = -1
        broker.follow(first, second)
        await until(lambda: broker.fetchers.leaders == [])
        second.leader, second.leader_epoch = LEADER, EPOCH + 1
        broker.follow(second)
        await until(lambda: len(broker.leader.opened) == 2)
        await asks(broker, 0, index=1)


async def test_a_gap_is_closed_before_anything_is_fetched(tmp_path: Path) -> None:
    """The leader sees only where the log ends."""
    async with following(tmp_path) as broker:
        partition = broker.follower()
        for base in (0, 2, 4):
            partition.append(batch_at(base, b"x", b"y"), 0)
        partition.log.gap_at = 2
        broker.follow(partition)
        await asks(broker, 2)
        assert partition.log.gap_at == -1


async def test_a_follower_with_a_failed_disk_is_silent(tmp_path: Path) -> None:
    """Its fetches would say that it is in sync."""
    async with following(tmp_path) as broker:
        partition = broker.follower()
        broker.follow(partition)
        await asks(broker, 0)
        partition.log.health.fail("a test", OSError(5, "Input/output error"))
        broker.follow(partition)
        await until(lambda: broker.fetchers.leaders == [])


async def test_what_a_former_leader_answered_counts_no_more(tmp_path: Path) -> None:
    """A partition moves while an answer is worked on: what its new leader has told stays.

    It may be acknowledged, and nobody else may have it any more.
    """
    async with following(tmp_path) as broker:
        first, second = broker.follower(0), broker.follower(1)
        second.append(batch_at(0, b"a", b"b", epoch=1), 0)
        answers = broker.leader.answer

        def answer_late(port: int, request: Request, version: int) -> Response | bytes | None:
            if isinstance(request, ListOffsetsRequest) and second.leader == LEADER:
                second.leader, second.leader_epoch = 3, EPOCH + 1
                broker.follow(second)
                second.append(batch_at(2, b"c", epoch=EPOCH + 1), 0)
            return answers(port, request, version)

        broker.leader.answer = answer_late
        broker.ends = (50, 70)
        broker.follow(first, second)
        await asks(broker, 2, index=1)
        lost = answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        diverging = EpochEndOffset(epoch=1, end_offset=1)
        lost.responses += answer(1, diverging_epoch=diverging).responses
        broker.says(lost)
        await asks(broker, 50)
        assert second.log.log_end_offset == 3


async def test_a_leader_that_refuses_an_offset_it_has_is_not_asked_without_rest(
    tmp_path: Path, autojump_clock: trio.testing.MockClock
) -> None:
    """Nothing is to be cut then; the same question again at once would go on for ever."""
    async with following(tmp_path) as broker:
        partition = broker.follower()
        partition.append(batch_at(0, b"a", b"b"), 0)
        broker.ends = (0, 9)
        broker.follow(partition)
        await asks(broker, 2)
        began_s = trio.current_time()
        broker.says(*[answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)] * 5)
        await until(lambda: len(broker.fetched) >= 5)
        assert trio.current_time() - began_s >= 0.03
        assert partition.log.log_end_offset == 2


async def test_a_disk_that_fails_before_the_first_fetch_is_noticed(tmp_path: Path) -> None:
    """While the log is cut: a fetch would say that the follower is in sync."""
    async with following(tmp_path) as broker:
        partition = broker.follower()
        for base in (0, 2):
            partition.append(batch_at(base, b"x", b"y"), 0)
        partition.log.gap_at = 2
        broker.follow(partition)
        partition.log.health.fail("a test", OSError(5, "Input/output error"))
        await until(lambda: partition.log.truncations > 0 and partition.cutting is None)
        await trio.testing.wait_all_tasks_blocked()
        assert broker.leader.requests == []
        broker.follow(partition)
        await until(lambda: broker.fetchers.leaders == [])
