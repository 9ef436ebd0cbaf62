"""A follower that fetches large batches, from a leader which is a script."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import trio

from kwire.log.write_ahead import PIECE_BYTES
from kwire.record.batch import Buffer
from kwire.testing.quick_disk import QuickDisk
from kwire.testing.waiting import until
from tests.broker.following import NOW_MS, answer, batch_at
from tests.broker.replica.test_fetcher import asks, fast_path, following

__all__ = ["fast_path"]


class WatchedWrites(QuickDisk):
    """Knows how large the largest write was, and calls ``between`` after each of a whole piece."""

    def __init__(self) -> None:
        self.largest_bytes = 0
        self.between: Callable[[], None] = lambda: None

    def pwrite_all(self, fd: int, data: Buffer, position: int) -> None:
        """Write."""
        super().pwrite_all(fd, data, position)
        self.largest_bytes = max(self.largest_bytes, len(data))
        if len(data) == PIECE_BYTES:
            self.between()


async def test_a_large_batch_is_written_in_pieces(tmp_path: Path) -> None:
    """Others have their turns in between; batches follow it in the same answer."""
    disk = WatchedWrites()
    turns = 0
    async with following(tmp_path, disk=disk, segment_bytes=8_000_000) as broker:
        partition = broker.follower()
        broker.follow(partition)
        await asks(broker, 0)
        for offset in (0, 3, 6):  # the third one is in another segment
            turns = 0

            def take_turn() -> None:
                nonlocal turns
                turns += 1

            disk.between = partial(trio.lowlevel.current_trio_token().run_sync_soon, take_turn)
            large = batch_at(offset, b"v" * 3_500_000)
            small = batch_at(offset + 1, b"a", b"b")
            broker.says(answer(records=large + small, high_watermark=offset + 3))
            await asks(broker, offset + 3)
            assert partition.log.log_end_offset == partition.high_watermark == offset + 3
            assert turns == 3
        assert disk.largest_bytes <= PIECE_BYTES
        assert [segment.base_offset for segment in partition.log.segments] == [0, 6]


async def test_a_large_batch_of_a_role_that_is_over_is_dropped(tmp_path: Path) -> None:
    """The new leader's records begin where it would have begun."""
    disk = WatchedWrites()
    async with following(tmp_path, disk=disk) as broker:
        partition = broker.follower()
        broker.follow(partition)
        await asks(broker, 0)

        def lead_elsewhere() -> None:
            partition.leader = -1
            broker.follow(partition)

        disk.between = lead_elsewhere
        broker.says(answer(records=batch_at(0, b"v" * 3_500_000)))
        await until(lambda: broker.fetchers.leaders == [])
        assert (partition.log.log_end_offset, partition.log.needs_cut) == (0, False)
        partition.append(batch_at(0, b"a"), NOW_MS)
        assert (partition.log.log_end_offset, partition.log.needs_cut) == (1, False)
