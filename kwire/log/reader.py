"""Reading a partition's directory without a broker: a library call, not a server.

Example::

    from kwire.log import open_partition

    partition = open_partition("/var/lib/kafka/logs/orders-0")
    for record in partition.records(isolation="read_committed"):
        print(record.offset, record.timestamp, record.key, record.value)

Rules:

- The reader writes, locks and creates nothing. A broker, kwire or Kafka, may use the directory at
  the same time.
- A read returns what the log holds when the read begins, up to the last complete batch. If
  retention removes a segment meanwhile, the read raises FileNotFoundError.
- ``read_committed`` returns the records that such a consumer sees: no record at or after the first
  offset of an open transaction, and no record of an aborted transaction. ``read_uncommitted``
  returns every record. Transaction markers are never returned as records.
- The indexes of a segment are hints: if an index is missing or wrong, the segment is read from its
  start. Aborted transactions are taken from the ``.txnindex`` files.
"""

import struct
from bisect import bisect_right
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

from kwire.log.checkpoints import LOG_START_OFFSETS, read_offsets
from kwire.log.disk import Disk
from kwire.log.index_files import entry_before, offset_entries, transaction_entries
from kwire.log.partition_metadata import read_topic_id
from kwire.log.producer_snapshot import load_snapshot, snapshot_offsets
from kwire.log.producer_state import ProducerStates
from kwire.log.read_only_disk import ReadOnlyDisk
from kwire.log.transaction_index import AbortedTransaction
from kwire.record.batch import CONTROL_MASK, HEADER_BYTES, MAGIC, TRANSACTIONAL_MASK, RecordBatch
from kwire.record.batch_scan import BatchHeader, scan_headers
from kwire.record.records import Record, records

Isolation: TypeAlias = Literal["read_committed", "read_uncommitted"]

_LOG_SUFFIX = ".log"
_SCAN_BYTES = 64 * 1024
_HEADER_START = struct.Struct(">q8xb6xi")
"""Base offset, magic and last offset delta of a batch."""


class PartitionReader:
    """The records of one partition. Reads outside the log start or end at the log's bounds."""

    def __init__(self, directory: Path, disk: Disk | None = None) -> None:
        self._disk = disk or ReadOnlyDisk()
        self.directory = directory.absolute()
        topic, _, number = self.directory.name.rpartition("-")
        if not topic or not number.isdecimal():
            raise ValueError(
                f"{directory} is not named as a partition's directory: topic-partition"
            )
        self.topic = topic
        self.partition = int(number)
        self._disk.names(self.directory)
        self.topic_id = read_topic_id(self.directory, self._disk)

    @property
    def log_start_offset(self) -> int:
        """The first offset that readers see, after retention and deleted records."""
        bases = self._base_offsets()
        checkpoint = read_offsets(self.directory.parent / LOG_START_OFFSETS, self._disk)
        return max(bases[0] if bases else 0, checkpoint.get((self.topic, self.partition), 0))

    @property
    def end_offset(self) -> int:
        """The offset after the last complete batch."""
        bases = self._base_offsets()
        end = bases[-1] if bases else 0
        for _, header in self._headers(end):
            end = header.last_offset + 1
        return end

    @property
    def last_stable_offset(self) -> int:
        """The first offset of the oldest open transaction, or the end of the log."""
        states, start = self._newest_snapshot()
        opened = {
            producer_id: entry.current_txn_first_offset
            for producer_id, entry in states.producers.items()
            if entry.current_txn_first_offset >= 0
        }
        end = max([start, *self._base_offsets()[:1]])
        for _, header in self._headers(start):
            end = header.last_offset + 1
            if header.attributes & CONTROL_MASK:
                opened.pop(header.producer_id, None)
            elif header.attributes & TRANSACTIONAL_MASK:
                opened.setdefault(header.producer_id, header.base_offset)
        return min(opened.values(), default=end)

    def largest_producer_id(self) -> int:
        """The largest producer id in the newest snapshot and the batches after it, else -1.

        Producers that the log has forgotten don't count.
        """
        states, start = self._newest_snapshot()
        ids = [header.producer_id for _, header in self._headers(start)]
        return max([-1, *states.producers, *ids])

    def _newest_snapshot(self) -> tuple[ProducerStates, int]:
        """The producer state from the newest sound snapshot, and the offset of that snapshot."""
        for offset in reversed(snapshot_offsets(self.directory, self._disk)):
            states = load_snapshot(self.directory, offset, self._disk)
            if states is not None:
                return states, offset
        return ProducerStates(), 0

    def aborted_transactions(self) -> list[AbortedTransaction]:
        """Every aborted transaction in the indexes, ordered by first offset."""
        found = []
        for base in self._base_offsets():
            data = self._disk.read_bytes(self._path(base, ".txnindex"))
            found += [entry.aborted for entry in transaction_entries(data or b"")]
        return sorted(found, key=lambda aborted: aborted.first_offset)

    def batches(self, offset: int = 0) -> Iterator[RecordBatch]:
        """The batches from the one that holds ``offset`` on, with verified checksums.

        Raises InvalidRecords (CORRUPT_MESSAGE) if a batch is damaged.
        """
        for fd, header in self._headers(offset):
            batch = RecordBatch(self._disk.pread(fd, header.size_bytes, header.position))
            batch.verify_crc()
            yield batch

    def records(
        self, offset: int = 0, isolation: Isolation = "read_uncommitted"
    ) -> Iterator[Record]:
        """The records from ``offset`` on, as a consumer sees them; raises as ``batches`` does."""
        if isolation not in ("read_committed", "read_uncommitted"):
            raise ValueError(
                f"isolation {isolation!r} is neither read_committed nor read_uncommitted"
            )
        start = max(offset, self.log_start_offset)
        end: int | None = None
        aborted: list[AbortedTransaction] = []
        if isolation == "read_committed":
            end = self.last_stable_offset
            aborted = self.aborted_transactions()
        dropped: set[int] = set()
        for batch in self.batches(start):
            if end is not None and batch.base_offset >= end:
                return
            while aborted and aborted[0].first_offset <= batch.last_offset:
                transaction = aborted.pop(0)
                if transaction.last_offset >= batch.base_offset:
                    dropped.add(transaction.producer_id)
            if batch.is_control:
                dropped.discard(batch.producer_id)
            elif not (batch.is_transactional and batch.producer_id in dropped):
                yield from (record for record in records(batch) if record.offset >= start)

    def _headers(self, offset: int) -> Iterator[tuple[int, BatchHeader]]:
        """The headers of the batches from the one that holds ``offset`` on, with an open file."""
        bases = self._base_offsets()
        for base in bases[max(bisect_right(bases, offset) - 1, 0) :]:
            fd = self._disk.open(self._path(base, _LOG_SUFFIX))
            try:
                size_bytes = self._disk.size(fd)

                def read(position: int, size: int, fd: int = fd) -> bytes:
                    return self._disk.pread(fd, size, position)

                start = self._search_start(fd, base, offset) if offset > base else 0
                for header in scan_headers(read, start, size_bytes, _SCAN_BYTES):
                    if header.last_offset >= offset:
                        yield fd, header
            finally:
                self._disk.close(fd)

    def _search_start(self, fd: int, base: int, offset: int) -> int:
        """The position of a batch in the segment at or before the one that holds ``offset``."""
        data = self._disk.read_bytes(self._path(base, ".index"))
        entry = entry_before(offset_entries(data or b"", base), offset)
        if entry is None or entry.position < 0:
            return 0
        header = self._disk.pread(fd, HEADER_BYTES, entry.position)
        with suppress(struct.error):
            fields = _HEADER_START.unpack_from(header)
            if fields == (entry.offset - fields[2], MAGIC, fields[2]):
                return entry.position
        return 0

    def _base_offsets(self) -> list[int]:
        stems = (
            name.removesuffix(_LOG_SUFFIX)
            for name in self._disk.names(self.directory)
            if name.endswith(_LOG_SUFFIX)
        )
        return sorted(int(stem) for stem in stems if stem.isdecimal())

    def _path(self, base: int, suffix: str) -> Path:
        return self.directory / f"{base:020d}{suffix}"
