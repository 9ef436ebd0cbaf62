"""Lookups by time in logs, for handlers: a lookup doesn't delay other clients.

Rules:

- A lookup is done in steps, and each step counts as work of its request. Between two slices, other
  requests have their turn. The lookup ends if its client is gone.
- A batch of a few records is opened on the event loop, and a larger batch in a thread.
- A thread reads pages that aren't in memory, as in ``kwire.handlers.lib.lookups``.
"""

from contextlib import nullcontext
from functools import partial

from kwire.broker.partition import Partition
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.opening import full_limits, open_in_thread
from kwire.handlers.lib.slices import give_way
from kwire.handlers.lib.waiting import later
from kwire.log.inline_limits import is_quick_to_open
from kwire.log.page_cache import ColdPages
from kwire.log.time_search import BatchToOpen, FoundOffset, LargestSearch, TimeSearch
from kwire.log.validation import INLINE_LIMITS
from kwire.record.batch import InvalidRecords, TooLarge
from kwire.record.streaming_decompressor import RecordTooLarge, do_nothing

MANY_TRIES = 200


async def find_by_time(
    partition: Partition, timestamp: int, end_offset: int, context: RequestContext
) -> FoundOffset | None:
    """The first record with at least this timestamp before ``end_offset``, None without one."""
    return await _find_offset(TimeSearch(partition.log, timestamp), partition, end_offset, context)


async def find_largest(
    partition: Partition, end_offset: int, context: RequestContext
) -> FoundOffset | None:
    """The first record with the largest timestamp; None if it isn't before ``end_offset``."""
    return await _find_offset(LargestSearch(partition.log), partition, end_offset, context)


async def _find_offset(
    search: TimeSearch, partition: Partition, end_offset: int, context: RequestContext
) -> FoundOffset | None:
    while not search.is_done:
        await give_way(context.work)
        opening = await _take_step(search, partition, context)
        if opening is not None:
            search.add_result(await _search_batch(search, opening, partition, context))
    found = search.found
    return found if found and found.offset < end_offset else None


async def _take_step(
    search: TimeSearch, partition: Partition, context: RequestContext
) -> BatchToOpen | None:
    """Take the next step; if pages vanish as fast as they are read, wait for the disk."""
    log = partition.log
    for tries in range(MANY_TRIES + 1):
        try:
            with log.hurry if tries < MANY_TRIES else nullcontext():
                return search.step()
        except ColdPages as cold:
            await later(partial(context.broker.cold_reads.populate_around, cold))
        except OSError as error:
            raise log.health.refused(f"cannot read {log.name}", error) from error
    return None


async def _search_batch(
    search: TimeSearch, opening: BatchToOpen, partition: Partition, context: RequestContext
) -> tuple[int, int] | None:
    """Look into a batch; an unreadable batch counts by its header."""
    batch, search_in_batch = opening.batch, partial(search.search_in_batch, opening)
    is_small = is_quick_to_open(batch)
    limits = full_limits(context.broker, partition.log.config)
    await give_way(context.work)
    try:
        if is_small:
            try:
                inline = INLINE_LIMITS._replace(max_record_bytes=limits.max_record_bytes)
                return search_in_batch(inline, do_nothing)
            except TooLarge:
                pass  # the header doesn't show how large the opened batch is
        return await open_in_thread(search_in_batch, batch, limits, context)
    except RecordTooLarge:
        raise
    except InvalidRecords:
        return opening.unread()
