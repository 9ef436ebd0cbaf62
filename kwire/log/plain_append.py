"""The append of a plain batch in one step: a fast path.

``append_plain`` does the same as ``PartitionLog.append_checked``, its slow and obvious twin, for an
append that needs no other work. It changes nothing and returns -1 if a segment has to be rolled, if
a leader epoch starts, if a producer's batch doesn't continue its sequence, or after a disk error.
The caller then calls the twin, which also raises the errors. Both leave the same state behind, as
tests/log/test_plain_append.py shows.
"""

from contextlib import suppress
from struct import Struct

from kwire.errors import KafkaError
from kwire.log.log_config import LogConfig
from kwire.log.partition_log import PartitionLog
from kwire.log.rolling import note_room
from kwire.log.segment import LogSegment
from kwire.record.batch import LOG_OVERHEAD_BYTES, NO_PRODUCER_ID, RecordBatch

_START = Struct(">qii")
"""Base offset, length, leader epoch."""


def append_plain(log: PartitionLog, batch: RecordBatch, leader_epoch: int) -> int:
    """Append the batch from ``plain_batch``, alone in its buffer; its first offset, or -1."""
    segment = log.segments[-1]
    if segment.room_bytes < 0:
        note_room_if_any(segment, log.config)
    size_bytes = batch.size_bytes
    first_offset = log.log_end_offset
    last_offset = first_offset + batch.last_offset_delta
    if (
        segment.size_bytes + size_bytes > segment.room_bytes
        or batch.max_timestamp > segment.room_timestamp
        or last_offset > segment.room_offset
        or log.health.failure is not None
        or log.is_abandoned
        or log.needs_cut
        or leader_epoch > log.leader_epochs.latest
    ):
        return -1
    producer = None
    if batch.producer_id > NO_PRODUCER_ID:
        producer = log.producers.goes_on(batch)
        if producer is None:
            return -1
    _START.pack_into(batch.buffer, 0, first_offset, size_bytes - LOG_OVERHEAD_BYTES, leader_epoch)
    max_timestamp = batch.max_timestamp
    try:
        segment.append(batch.buffer, last_offset, max_timestamp, last_offset)
    except OSError as error:
        log.undo_append(error)
        _START.pack_into(batch.buffer, 0, 0, size_bytes - LOG_OVERHEAD_BYTES, -1)
        return -1
    log.log_end_offset = last_offset + 1
    if producer is not None:
        batch.base_offset = first_offset
        producer.add_batch(batch)
    return first_offset


def note_room_if_any(segment: LogSegment, config: LogConfig) -> None:
    """Store the limits of a segment that isn't empty, see ``kwire.log.rolling``."""
    if segment.size_bytes:
        with suppress(OSError, KafkaError):  # the twin meets the same error and raises it
            note_room(segment, config)
