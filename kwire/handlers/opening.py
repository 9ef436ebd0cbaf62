"""Opening the record batches of requests: on the event loop, or in the threads for it.

Rules:

- What takes a fraction of a millisecond is opened on the event loop. What turns out to be more, or
  is known to be, goes to the thread for small batches, and from there to that for large ones
  (``kwire.budget.checking``).
- Beyond ``kwire.decompressed.max.bytes`` and ``kwire.decompressed.max.records`` nothing is opened.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from kwire.broker.broker import Broker
from kwire.handlers.context import RequestContext
from kwire.handlers.waiting import later
from kwire.log.log_config import LogConfig
from kwire.log.validation import limits_of
from kwire.record.batch import RecordBatch, TooLarge
from kwire.record.feed import Between, Limits

MAX_BYTES = "kwire.decompressed.max.bytes"
MAX_RECORDS = "kwire.decompressed.max.records"

SMALL_BATCH_BYTES = 1024 * 1024
SMALL_LIMITS = Limits(max_bytes=2 * 1024 * 1024, max_records=20_000, max_headers=20_000)
"""What is opened in the thread for small batches, in some milliseconds."""

_T = TypeVar("_T")


def full_limits(broker: Broker, config: LogConfig) -> Limits:
    """The most that is opened in a topic."""
    return limits_of(config, broker.integer(MAX_BYTES), broker.integer(MAX_RECORDS))


async def open_in_thread(
    look: Callable[[Limits, Between], _T],
    batch: RecordBatch,
    limits: Limits,
    context: RequestContext,
) -> _T:
    """``look(limits, between)`` at a batch in a thread; TooLarge where the limits don't suffice."""
    threads, work = context.broker.threads.checking, context.work
    if batch.size_bytes <= SMALL_BATCH_BYTES and batch.records_count <= SMALL_LIMITS.max_records:
        try:
            return await later(partial(threads.small.run, work, look, SMALL_LIMITS))
        except TooLarge:
            pass  # nobody could know
    try:
        return await later(partial(threads.large.run, work, look, limits))
    except TooLarge as error:
        raise TooLarge(
            f"{error.message}; {MAX_BYTES}={limits.max_bytes} and "
            f"{MAX_RECORDS}={limits.max_records} allow no more: send smaller batches"
        ) from error
