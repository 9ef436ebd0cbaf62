"""Writes the large batches of Produce requests in slices of the event loop."""

from collections.abc import Awaitable, Callable

import trio

from kwire.broker.partition import Partition
from kwire.budget.work import Work
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.slices import give_way
from kwire.handlers.lib.waiting import later
from kwire.log.inline_limits import AT_ONCE_BYTES
from kwire.log.validation import AppendInfo, CheckedBatch, check_segment_size
from kwire.log.write_ahead import WriteAhead
from kwire.record.batch import RecordBatch


async def append_in_turn(
    partition: Partition,
    checked: CheckedBatch,
    acks: int,
    context: RequestContext,
    verify: Callable[[], Awaitable[None]],
) -> AppendInfo:
    """Append a batch after the large one that is being written, or a large one in pieces.

    ``verify`` checks a transactional batch again after each wait: its transaction may be over.
    Raises its KafkaError, and those of ``write_ahead`` and ``Partition.append_checked``.
    """
    batch, producers = checked.batch, partition.log.producers

    async def verify_again() -> None:
        if batch.is_transactional and not producers.has_open_transaction(
            batch.producer_id, batch.producer_epoch
        ):
            await verify()

    while partition.writing is not None:
        await _wait_for_turn(partition.writing, context.work)
        await verify_again()
    ahead = None
    if batch.size_bytes > AT_ONCE_BYTES:
        ahead = await write_ahead(partition, batch, acks, context)
    if ahead is None:
        return partition.append_checked(checked, now_ms=context.broker.now_ms(), required_acks=acks)
    try:
        await verify_again()
        now_ms = context.broker.now_ms()
        with ahead.written(now_ms):
            return partition.append_checked(checked, now_ms=now_ms, required_acks=acks)
    finally:
        ahead.cut_off()


async def _wait_for_turn(turn: trio.Event, work: Work) -> None:
    """Wait for another request. What this one holds must not keep that one from going on."""
    held_bytes = work.held_bytes
    if held_bytes:
        work.release()
    await later(turn.wait)
    if held_bytes:
        work.hold(held_bytes)


async def write_ahead(
    partition: Partition, batch: RecordBatch, acks: int, context: RequestContext
) -> WriteAhead | None:
    """Write a batch in pieces before it is appended. Its producers wait for it.

    None for a batch that is there already. Other appends, of markers for example, don't wait: they
    make it begin again. Raises KafkaError after a disk error, for a batch that the log will refuse,
    and as soon as the partition doesn't take it any more.
    """
    log = partition.log
    check_segment_size(batch, log.config)
    if batch.has_producer_id and log.producers.check(batch) is not None:
        return None
    ahead = WriteAhead(log, batch)
    partition.writing = trio.Event()
    try:
        partition.check_in_sync(acks)
        while not ahead.write_piece(context.broker.now_ms()):
            await give_way(context.work)
            partition.check_in_sync(acks)
    except BaseException:
        ahead.cut_off()
        raise
    finally:
        partition.writing.set()
        partition.writing = None
    return ahead
