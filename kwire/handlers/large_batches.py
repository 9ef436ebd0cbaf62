"""Writes the large batches of Produce requests in slices of the event loop."""

import trio

from kwire.broker.partition import Partition
from kwire.handlers.context import RequestContext
from kwire.handlers.waiting import later
from kwire.log.write_ahead import WriteAhead
from kwire.record.batch import RecordBatch

UNITS = 500
"""The cost of writing a piece."""


async def write_ahead(
    partition: Partition, batch: RecordBatch, acks: int, context: RequestContext
) -> WriteAhead:
    """Write a batch in pieces before it is appended. Its producers wait for it.

    Other appends, of markers for example, don't wait: they make it begin again. Raises KafkaError
    after a disk error, and as soon as the partition doesn't take the batch any more.
    """
    ahead = WriteAhead(partition.log, batch)
    partition.writing = trio.Event()
    try:
        partition.check_in_sync(acks)
        while not ahead.step(context.broker.now_ms()):
            if context.work.spend(UNITS):
                await later(context.work.next_slice)
            partition.check_in_sync(acks)
    finally:
        partition.writing.set()
        partition.writing = None
    return ahead
