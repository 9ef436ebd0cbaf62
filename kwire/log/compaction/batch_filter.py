"""What stays of a batch that is compacted.

Rules:

- A record stays when it is the last one of its key as far as the map knows the log; records without
  a key go. A tombstone (no value) goes once the delete horizon of its batch has passed.
- The delete horizon is set when a batch with tombstones, or with a marker that nobody needs, is
  first compacted: ``delete.retention.ms`` from now. It takes the place of the base timestamp, and
  bit 6 of the attributes says so (KIP-534).
- Records of aborted transactions go at once, markers after their delete horizon.
- The last batch of each active producer stays, if need be empty, for its sequence and epoch; so
  does the batch at the end of what may be cleaned, so that its offset isn't lost.
- A batch that loses records keeps its offsets, producer, sequence, leader epoch and codec. One that
  loses none is copied as it is.

Source: Cleaner.cleanInto and MemoryRecords.filterTo of Kafka.
"""

from typing import NamedTuple

from kwire.log.compaction.job import CompactionJob, CompactionStatistics
from kwire.log.compaction.offset_map import OffsetMap
from kwire.log.compaction.transactions import CleanedTransactions
from kwire.record.batch import (
    COMPRESSION_MASK,
    DELETE_HORIZON_MASK,
    LOG_APPEND_TIME,
    NO_TIMESTAMP,
    Buffer,
    RecordBatch,
    build_header,
)
from kwire.record.compression import compress
from kwire.record.spans import RecordSpan, append_shifted, payload, record_spans


class KeptBatch(NamedTuple):
    """What stays of a batch: its bytes and what the indexes need of it."""

    data: Buffer
    last_offset: int
    max_timestamp: int


class BatchFilter:
    """Decides for one clean; counts what it reads and keeps in ``statistics``."""

    def __init__(
        self, job: CompactionJob, offsets: OffsetMap, statistics: CompactionStatistics
    ) -> None:
        self.transactions = CleanedTransactions()
        self._offsets = offsets
        self._statistics = statistics
        self._now_ms = job.now_ms
        self._next_horizon_ms = job.now_ms + job.delete_retention_ms
        self._end_offset = job.first_uncleanable_offset
        self._producers = {producer.producer_id: producer for producer in job.producers}

    def keep(self, batch: RecordBatch) -> KeptBatch | None:
        """What stays of the next batch, None when nothing does.

        Raises InvalidRecords for a batch that is damaged.
        """
        batch.verify_crc()
        self._statistics.bytes_read += batch.size_bytes
        unneeded = self.transactions.pass_batch(batch)
        if unneeded and (not batch.is_control or self._horizon_has_passed(batch)):
            self._statistics.messages_read += batch.records_count
            return self._keep_header(batch)
        records = payload(batch)
        spans = record_spans(records, batch.records_count)
        self._statistics.messages_read += len(spans)
        kept = spans if batch.is_control else self._kept_spans(batch, spans)
        if not kept:
            return self._keep_header(batch)
        self._statistics.messages_written += len(kept)
        has_deletes = unneeded or not all(span.has_value for span in kept)
        needs_horizon = has_deletes and batch.delete_horizon_ms is None
        if len(kept) == len(spans) and not needs_horizon:
            result = KeptBatch(batch.data, batch.last_offset, batch.max_timestamp)
        else:
            result = self._rebuild(batch, records, kept, needs_horizon)
        self._statistics.bytes_written += len(result.data)
        return result

    def _horizon_has_passed(self, batch: RecordBatch) -> bool:
        horizon_ms = batch.delete_horizon_ms
        return horizon_ms is not None and horizon_ms <= self._now_ms

    def _kept_spans(self, batch: RecordBatch, spans: list[RecordSpan]) -> list[RecordSpan]:
        """The records of a batch of data that stay."""
        base_offset = batch.base_offset
        known_to = self._offsets.latest_offset
        if base_offset > known_to:
            return spans
        get = self._offsets.get
        keeps_deletes = not self._horizon_has_passed(batch)
        kept = []
        for span in spans:
            offset = base_offset + span.offset_delta
            if offset <= known_to:
                if span.key is None:
                    self._statistics.invalid_messages_read += 1
                    continue
                if not (span.has_value or keeps_deletes) or offset < get(span.key):
                    continue
            kept.append(span)
        return kept

    def _keep_header(self, batch: RecordBatch) -> KeptBatch | None:
        """The batch without records if something hangs on it."""
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
        """Whether the producer's state would be lost with this batch."""
        if not batch.has_producer_id:
            return False
        producer = self._producers.get(batch.producer_id)
        if producer is None:
            return False
        if producer.last_data_offset >= 0:
            return batch.last_offset == producer.last_data_offset
        return batch.is_control and batch.producer_epoch == producer.producer_epoch

    def _rebuild(
        self, batch: RecordBatch, records: bytes, kept: list[RecordSpan], needs_horizon: bool
    ) -> KeptBatch:
        """The batch with these of its records, and a delete horizon where it gets one."""
        attributes, base_timestamp = batch.attributes, batch.base_timestamp
        max_timestamp = batch.max_timestamp
        is_create_time = batch.timestamp_type != LOG_APPEND_TIME
        if is_create_time:
            max_timestamp = base_timestamp + max(span.timestamp_delta for span in kept)
        body = bytearray()
        if needs_horizon:
            attributes |= DELETE_HORIZON_MASK
            base_timestamp = self._next_horizon_ms
        if needs_horizon and is_create_time:
            for span in kept:
                append_shifted(body, records, span, batch.base_timestamp - base_timestamp)
        else:
            for span in kept:
                body += records[span.start : span.end]
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
