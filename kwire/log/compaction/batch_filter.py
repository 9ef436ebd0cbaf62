"""The decision which records of a batch a compaction keeps.

Rules:

- A record stays if the map of keys has no later record of its key. A record without a key is
  removed. A tombstone (no value) is removed once the delete horizon of its batch has passed.
- The delete horizon is set when a batch with tombstones, or with a marker whose transaction has no
  batches left, is first compacted: ``delete.retention.ms`` from now. It replaces the base
  timestamp, and bit 6 of the attributes marks it (KIP-534).
- Records of aborted transactions are removed at once, markers after their delete horizon.
- The last batch of each active producer stays, empty if necessary, because it holds the producer's
  sequence and epoch. The batch at the end of the cleaned part stays too, so that its offset isn't
  lost.
- A batch that loses records keeps its offsets, producer, sequence, leader epoch and codec. A batch
  that loses none is copied unchanged.
- If all keys of the dirty part fit into the map, offsets alone tell which records are the last of
  their keys. A batch without such records need not be read.

Source: Cleaner.cleanInto and MemoryRecords.filterTo of Kafka.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kwire.log.compaction.job import CompactionJob, CompactionStatistics
from kwire.log.compaction.offset_map import LastOffsets, OffsetMap
from kwire.log.compaction.transactions import CleanedTransactions
from kwire.record.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON_MASK,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    Buffer,
    RecordBatch,
    TooLarge,
    build_header,
)
from kwire.record.compression import compress
from kwire.record.record_index import RecordIndex
from kwire.record.streaming_decompressor import Limits


class KeptBatch(NamedTuple):
    """The part of a batch that stays: its bytes, and the numbers that the indexes need."""

    data: Buffer
    last_offset: int
    max_timestamp: int


def open_record_index(batch: RecordBatch, limits: Limits) -> RecordIndex:
    """The records of a batch, held in memory while the batch is compacted.

    Raises InvalidRecords if the batch is damaged, and TooLarge if it exceeds the limits. Only a
    decompression bomb exceeds them, or a batch that was appended before the limits were set.
    """
    try:
        return RecordIndex(batch, limits)
    except TooLarge as error:
        raise TooLarge(
            f"the batch at offset {batch.base_offset}: {error.message}; "
            f"kwire.decompressed.max.bytes={limits.max_bytes} and "
            f"kwire.decompressed.max.records={limits.max_records} allow no more"
        ) from error


class BatchFilter:
    """Decides which records stay, for one clean; counts records and bytes in ``statistics``.

    ``last_offsets`` is given if the map holds every key of the dirty part.
    """

    def __init__(
        self,
        job: CompactionJob,
        offsets: OffsetMap,
        last_offsets: LastOffsets | None,
        statistics: CompactionStatistics,
    ) -> None:
        self.transactions = CleanedTransactions()
        self._offsets = offsets
        self._last_offsets = last_offsets
        self._first_dirty_offset = job.first_dirty_offset
        self._statistics = statistics
        self._now_ms = job.now_ms
        self._limits = job.limits
        self._next_horizon_ms = job.now_ms + job.delete_retention_ms
        self._end_offset = job.first_uncleanable_offset
        self._producers = {producer.producer_id: producer for producer in job.producers}

    def needs_records(self, batch: RecordBatch) -> bool:
        """Whether ``keep`` needs the records of a batch and not only its header."""
        last_offsets = self._last_offsets_in(batch)
        return last_offsets is None or len(last_offsets) > 0

    def keep(self, batch: RecordBatch) -> KeptBatch | None:
        """The part of the next batch that stays, None if nothing stays.

        Raises InvalidRecords if the batch is damaged.
        """
        last_offsets = self._last_offsets_in(batch)
        is_needed = last_offsets is None or len(last_offsets) > 0
        if is_needed:
            batch.verify_crc()  # the map's construction has checked the other batches
        self._statistics.bytes_read += batch.size_bytes
        unneeded = self.transactions.pass_batch(batch)
        if not is_needed or (unneeded and self._goes_without_a_look(batch)):
            self._statistics.messages_read += batch.records_count
            return self._keep_header(batch)
        index = open_record_index(batch, self._limits)
        self._statistics.messages_read += len(index)
        if batch.is_control:
            kept: Sequence[int] = range(len(index))
        else:
            kept = self._kept_places(batch, index, last_offsets)
        if not kept:
            return self._keep_header(batch)
        self._statistics.messages_written += len(kept)
        has_deletes = unneeded or not set(index.deletes).isdisjoint(kept)
        needs_horizon = has_deletes and batch.delete_horizon_ms is None
        if len(kept) == len(index) and not needs_horizon:
            result = KeptBatch(batch.data, batch.last_offset, batch.max_timestamp)
        else:
            result = self._rebuild(batch, index, kept, needs_horizon)
        self._statistics.bytes_written += len(result.data)
        return result

    def _last_offsets_in(self, batch: RecordBatch) -> Sequence[int] | None:
        """The offsets in a batch whose records are the last of their keys.

        None if only the keys can tell. That is so outside the part of the log that the map covers.
        """
        if (
            self._last_offsets is None
            or batch.is_control
            or batch.base_offset < self._first_dirty_offset
            or batch.last_offset > self._offsets.latest_offset
        ):
            return None
        return self._last_offsets.within(batch.base_offset, batch.last_offset)

    def _goes_without_a_look(self, batch: RecordBatch) -> bool:
        """Whether nothing stays of a batch that its transaction doesn't need."""
        return not batch.is_control or self._horizon_has_passed(batch)

    def _horizon_has_passed(self, batch: RecordBatch) -> bool:
        horizon_ms = batch.delete_horizon_ms
        return horizon_ms is not None and horizon_ms <= self._now_ms

    def _kept_places(
        self, batch: RecordBatch, index: RecordIndex, last_offsets: Sequence[int] | None
    ) -> Sequence[int]:
        """The indexes of the records that stay in a batch of data."""
        gone = frozenset(index.deletes if self._horizon_has_passed(batch) else ())
        base_offset = batch.base_offset
        if last_offsets is None:
            return self._places_by_key(base_offset, index, gone)
        if len(last_offsets) == len(index) and not gone:
            return range(len(index))
        deltas = {offset - base_offset for offset in last_offsets}
        return [
            place
            for place, delta in enumerate(index.offset_deltas)
            if delta in deltas and place not in gone
        ]

    def _places_by_key(
        self, base_offset: int, index: RecordIndex, gone: frozenset[int]
    ) -> Sequence[int]:
        """As ``_kept_places``, for a batch whose keys have to be looked up in the map."""
        known_to = self._offsets.latest_offset
        if base_offset > known_to:
            return range(len(index))
        kept = []
        latest = self._offsets.get_all(index.keys)
        for place, delta in enumerate(index.offset_deltas):
            offset = base_offset + delta
            if offset <= known_to:
                if index.keys[place] is None:
                    self._statistics.invalid_messages_read += 1
                    continue
                if offset < latest[place] or place in gone:
                    continue
            kept.append(place)
        return kept

    def _keep_header(self, batch: RecordBatch) -> KeptBatch | None:
        """The batch without records if its producer or its offset must be kept, else None."""
        if not self._is_last_of_producer(batch) and batch.next_offset != self._end_offset:
            return None
        data = build_header(
            b"",
            base_offset=batch.base_offset,
            leader_epoch=batch.partition_leader_epoch,
            attributes=batch.attributes & ~(COMPRESSION_MASK | DELETE_HORIZON_MASK),
            last_offset_delta=batch.last_offset_delta,
            base_timestamp=NO_TIMESTAMP,
            max_timestamp=batch.max_timestamp,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            records_count=0,
        )
        self._statistics.bytes_written += len(data)
        return KeptBatch(data, batch.last_offset, batch.max_timestamp)

    def _is_last_of_producer(self, batch: RecordBatch) -> bool:
        """Whether removing this batch would lose the producer's state."""
        if not batch.has_producer_id:
            return False
        producer = self._producers.get(batch.producer_id)
        if producer is None:
            return False
        if producer.last_data_offset >= 0:
            return batch.last_offset == producer.last_data_offset
        return batch.is_control and batch.producer_epoch == producer.producer_epoch

    def _rebuild(
        self, batch: RecordBatch, index: RecordIndex, kept: Sequence[int], needs_horizon: bool
    ) -> KeptBatch:
        """The batch with only these records, and with a delete horizon if it needs one."""
        attributes, base_timestamp = batch.attributes, batch.base_timestamp
        max_timestamp = batch.max_timestamp
        is_create_time = batch.timestamp_type != LOG_APPEND_TIME
        if is_create_time:
            max_timestamp = base_timestamp + max(map(index.timestamp_delta, kept))
        if needs_horizon:
            attributes |= DELETE_HORIZON_MASK
            base_timestamp = self._next_horizon_ms
        if needs_horizon and is_create_time:
            body = index.shifted(kept, batch.base_timestamp - base_timestamp)
        else:
            body = index.copied(kept)
        data = build_header(
            compress(batch.compression, body),
            base_offset=batch.base_offset,
            leader_epoch=batch.partition_leader_epoch,
            attributes=attributes,
            last_offset_delta=batch.last_offset_delta,
            base_timestamp=base_timestamp,
            max_timestamp=max_timestamp,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_sequence=batch.base_sequence,
            records_count=len(kept),
        )
        return KeptBatch(data, batch.last_offset, max_timestamp)
