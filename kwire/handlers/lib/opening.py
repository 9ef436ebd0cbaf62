"""Opens the record batches of requests: on the event loop, or in the threads for that work.

Rules:

- A batch that takes a fraction of a millisecond is opened on the event loop. A batch that turns out
  to take longer goes to the thread for small batches, and then to the thread for large ones
  (``kwire.budget.validation_pool``). A batch that is known to be large goes there directly.
- No batch is opened beyond ``kwire.decompressed.max.bytes`` or ``kwire.decompressed.max.records``.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from kwire.broker.broker import Broker
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.waiting import later
from kwire.log.log_config import LogConfig
from kwire.log.validation import limits_of
from kwire.record.batch import RecordBatch, TooLarge
from kwire.record.streaming_decompressor import BetweenPieces, Limits

MAX_BYTES = "kwire.decompressed.max.bytes"
MAX_RECORDS = "kwire.decompressed.max.records"

SMALL_BATCH_BYTES = 1024 * 1024
SMALL_LIMITS = Limits(max_bytes=2 * 1024 * 1024, max_records=20_000, max_headers=20_000)
"""The limits of the thread for small batches, which reaches them in some milliseconds."""

_T = TypeVar("_T")


def full_limits(broker: Broker, config: LogConfig) -> Limits:
    """The limits for a batch of a topic."""
    return limits_of(config, broker.integer(MAX_BYTES), broker.integer(MAX_RECORDS))


async def open_in_thread(
    look: Callable[[Limits, BetweenPieces], _T],
    batch: RecordBatch,
    limits: Limits,
    context: RequestContext,
) -> _T:
    """Call ``look(limits, between)`` in a thread; TooLarge if the batch is beyond the limits."""
    threads, work = context.broker.threads.validation, context.work
    if batch.size_bytes <= SMALL_BATCH_BYTES and batch.records_count <= SMALL_LIMITS.max_records:
        try:
            small = SMALL_LIMITS._replace(max_record_bytes=limits.max_record_bytes)
            return await later(partial(threads.small.run, work, look, small))
        except TooLarge:
            pass  # the header doesn't show how large the opened batch is
    try:
        return await later(partial(threads.large.run, work, look, limits))
    except TooLarge as error:
        raise TooLarge(
            f"{error.message}; {MAX_BYTES}={limits.max_bytes} and "
            f"{MAX_RECORDS}={limits.max_records} allow no more: send smaller batches"
        ) from error
