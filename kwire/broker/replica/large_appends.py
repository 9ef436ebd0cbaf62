"""Writes the large batches that a follower fetches in pieces; see ``kwire.log.write_ahead``."""

from collections.abc import Callable

import trio

from kwire.broker.replica.follower_partition import FollowerPartition
from kwire.log.inline_limits import AT_ONCE_BYTES
from kwire.log.write_ahead import WriteAhead
from kwire.record.batch import Buffer, RecordBatch, complete_batches


async def append_large(
    partition: FollowerPartition,
    records: Buffer,
    now_ms: int,
    is_over: Callable[[], bool],
    append: Callable[[], None],
) -> None:
    """Write the first of the fetched batches in pieces, if it is large; then call ``append``.

    Other tasks have their turns between two pieces. Without the call if ``is_over`` by then.
    Raises KafkaError, and what ``append`` raises.
    """
    first = _large(partition, records)
    if first is None:
        append()
        return
    ahead = WriteAhead(partition.log, first)
    try:
        while not ahead.write_piece(now_ms):
            await trio.lowlevel.checkpoint()
            if is_over():
                ahead.cut_off()
                return
        with ahead.written(now_ms):
            append()
    except BaseException:
        ahead.cut_off()
        raise


def _large(partition: FollowerPartition, records: Buffer) -> RecordBatch | None:
    """The first batch, if it is large and the next one of the log."""
    log, first = partition.log, next(iter(complete_batches(records)), None)
    if first is None or first.size_bytes <= AT_ONCE_BYTES or first.base_offset < log.log_end_offset:
        return None
    return first if first.partition_leader_epoch <= partition.leader_epoch else None
