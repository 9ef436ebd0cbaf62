"""The append of a follower: it writes the leader's batches as they are.

Rules:

- Batches keep the offsets and leader epochs that the leader has given them. All checksums in a
  fetch response are verified before the first byte counts.
- An incomplete batch at the end is left out: the leader may cut a response within a batch.
- A batch with a newer leader epoch than the follower knows, and all batches after it, are left out.
  They come from a leader that this follower does not follow yet (KAFKA-18723).
- All batches that go into one segment are written with one system call, unless the first one is so
  large that it was written ahead (``kwire.log.write_ahead``).
- A batch that the log already has is skipped. A batch that begins before the log's end and ends
  after it is refused.

Source: UnifiedLog.appendAsFollower of Kafka.
"""

from collections.abc import Iterable, Iterator

from kwire.errors import ErrorCode, KafkaError
from kwire.log.partition_log import PartitionLog
from kwire.log.rolling import is_full
from kwire.log.segment import ALL_BYTES
from kwire.record.batch import Buffer, RecordBatch, complete_batches


class Overlap(KafkaError):
    """A leader's batch begins before the log's end, at ``base_offset``, and ends after it."""

    def __init__(self, batch: RecordBatch, log_end_offset: int) -> None:
        text = f"{batch!r} overlaps the log's end at {log_end_offset}"
        super().__init__(ErrorCode.CORRUPT_MESSAGE, text)
        self.base_offset = batch.base_offset


def append_replicated(log: PartitionLog, records: Buffer, *, leader_epoch: int, now_ms: int) -> int:
    """Append the batches of a fetch response from the leader of this epoch; return their number.

    Raises Overlap, KafkaError (CORRUPT_MESSAGE, KAFKA_STORAGE_ERROR).
    """
    log.check_writable()
    wanted = list(_wanted(log.log_end_offset, records, leader_epoch))
    done = 0
    while done < len(wanted):
        try:
            count = _append_to_segment(log, records, wanted[done:], now_ms)
        except OSError as error:
            raise log.undo_append(error) from error
        assert count > 0, log.name  # a new segment takes any batch, or this would go on for ever
        done += count
    assert not wanted or log.log_end_offset == wanted[-1].next_offset, (log.name, wanted[-1])
    return done


def _wanted(end_offset: int, records: Buffer, leader_epoch: int) -> Iterator[RecordBatch]:
    """The batches to append. They follow each other in the buffer."""
    for batch in complete_batches(records):
        if batch.partition_leader_epoch > leader_epoch:
            return
        if batch.next_offset <= end_offset:
            continue
        batch.verify_crc()
        if batch.base_offset < end_offset:
            raise Overlap(batch, end_offset)
        end_offset = batch.next_offset
        yield batch


def _append_to_segment(
    log: PartitionLog, records: Buffer, wanted: list[RecordBatch], now_ms: int
) -> int:
    """Append as many batches as fit into one segment; return their number. OSError, KafkaError."""
    segment = log.active
    first = wanted[0]
    if segment.size_bytes and is_full(segment, first, first.last_offset, log.config, now_ms):
        log.roll(now_ms)
        segment = log.active
    if log.unwritten_bytes == ALL_BYTES:
        fitting = [first, *_following(log, first, wanted[1:])]
        last = fitting[-1]
        segment.write_ahead(memoryview(records)[first.position : last.position + last.size_bytes])
    else:  # a single large batch
        fitting = [first]
        segment.write_ahead(memoryview(first.data)[: log.unwritten_bytes])
        log.unwritten_bytes = ALL_BYTES
    count = 0
    for batch in fitting:
        if count and is_full(segment, batch, batch.last_offset, log.config, now_ms):
            break  # its age or a full index rolls the segment: bytes written ahead are overwritten
        epoch, last_offset = batch.partition_leader_epoch, batch.last_offset
        assert batch.base_offset >= log.log_end_offset, batch  # ``_wanted`` has refused overlaps
        log.leader_epochs.assign(epoch, batch.base_offset)
        segment.append(batch.data, last_offset, batch.max_timestamp, last_offset, unwritten_bytes=0)
        log.log_end_offset = last_offset + 1
        if batch.has_producer_id:
            log.note_producer(batch, segment)
        count += 1
    if count < len(fitting):
        segment.cut(segment.size_bytes, log.log_end_offset)
    return count


def _following(
    log: PartitionLog, first: RecordBatch, others: Iterable[RecordBatch]
) -> Iterator[RecordBatch]:
    """The batches that follow the first one directly and still fit into the segment."""
    end = first.position + first.size_bytes
    room = log.config.segment_bytes - log.active.size_bytes - first.size_bytes
    for batch in others:
        room -= batch.size_bytes
        if batch.position != end or room < 0:
            return
        end += batch.size_bytes
        yield batch
