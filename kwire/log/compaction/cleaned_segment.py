"""Writing a cleaned segment: a segment's files with ``.cleaned`` appended to their names.

Rules:

- Index entries are added at the same places where ``LogSegment.append`` adds them.
- ``.txnindex`` exists only if it has an entry.
- When ``finish`` returns, all contents and names are synced. The next start removes files that a
  crash leaves before that.
- The files get the modification time of the newest segment that went into them, because retention
  uses that time if records have no timestamps.

Source: LogSegment of Kafka.
"""

from pathlib import Path

from kwire.log.compaction.batch_filter import KeptBatch
from kwire.log.disk import Disk
from kwire.log.interrupted_operations import CLEANED_SUFFIX
from kwire.log.segment import LOG_SUFFIX
from kwire.log.sparse_index import OffsetIndex, TimeIndex
from kwire.log.transaction_index import AbortedTransaction, TransactionIndex

SUFFIXES = (LOG_SUFFIX, ".index", ".timeindex", ".txnindex")
"""The suffixes of a segment's files, in the order in which the files are renamed."""

WRITE_BYTES = 256 * 1024
SYNC_BYTES = 32 * 1024 * 1024


class CleanedSegment:
    """A segment that is being written, starting at ``base_offset``."""

    def __init__(
        self, directory: Path, base_offset: int, index_interval_bytes: int, disk: Disk
    ) -> None:
        self.base_offset = base_offset
        self.size_bytes = 0
        self._directory = directory
        self._disk = disk
        self._index_interval_bytes = index_interval_bytes
        self._bytes_since_index = 0
        self._offset_index = bytearray()
        self._time_index = bytearray()
        self._aborted: list[AbortedTransaction] = []
        self._max_timestamp = -1
        self._max_timestamp_offset = base_offset
        self._indexed_timestamp = -1
        self._buffer = bytearray()
        self._written = 0
        self._synced = 0
        self.remove()
        self._fd = disk.open(self._path(LOG_SUFFIX), create=True)

    def _path(self, suffix: str) -> Path:
        return self._directory / f"{self.base_offset:020d}{suffix}{CLEANED_SUFFIX}"

    def append(self, batch: KeptBatch) -> None:
        """Write a batch; OSError."""
        if batch.max_timestamp > self._max_timestamp:
            self._max_timestamp = batch.max_timestamp
            self._max_timestamp_offset = batch.last_offset
        if self._bytes_since_index > self._index_interval_bytes:
            relative = batch.last_offset - self.base_offset
            self._offset_index += OffsetIndex.ENTRY.pack(relative, self.size_bytes)
            self._note_time()
            self._bytes_since_index = 0
        self._buffer += batch.data
        self.size_bytes += len(batch.data)
        self._bytes_since_index += len(batch.data)
        if len(self._buffer) >= WRITE_BYTES:
            self._write()

    def note_aborted(self, aborted: list[AbortedTransaction]) -> None:
        """Add aborted transactions that end in this segment."""
        self._aborted += aborted

    def _note_time(self) -> None:
        if self._max_timestamp > self._indexed_timestamp:
            relative = self._max_timestamp_offset - self.base_offset
            self._time_index += TimeIndex.ENTRY.pack(self._max_timestamp, relative)
            self._indexed_timestamp = self._max_timestamp

    def _write(self) -> None:
        self._disk.pwrite_all(self._fd, self._buffer, self._written)
        self._written += len(self._buffer)
        self._buffer.clear()
        # In small steps: syncing a gigabyte at once would delay all other writes to the disk.
        if self._written - self._synced >= SYNC_BYTES:
            self._disk.sync(self._fd)
            self._synced = self._written

    def finish(self, modified_ms: int) -> None:
        """Write the rest and wait until all of it is on the disk; OSError."""
        self._write()
        self._note_time()
        # The indexes have positions up to there, and are trusted once the file has its final name.
        assert self._written == self.size_bytes, (self._written, self.size_bytes)
        self._disk.sync(self._fd)
        self.close()
        self._write_file(".index", self._offset_index)
        self._write_file(".timeindex", self._time_index)
        if self._aborted:
            index = TransactionIndex(self._directory, self._path(".txnindex").name, self._disk)
            for aborted in self._aborted:
                index.append(aborted)
            self._sync_file(index.path)
        for suffix in SUFFIXES[:3]:
            self._disk.set_modified_ms(self._path(suffix), modified_ms)
        self._disk.sync_directory(self._directory)

    def _write_file(self, suffix: str, content: bytes | bytearray) -> None:
        fd = self._disk.open(self._path(suffix), create=True)
        try:
            self._disk.pwrite_all(fd, content, 0)
            self._disk.sync(fd)
        finally:
            self._disk.close(fd)

    def _sync_file(self, path: Path) -> None:
        fd = self._disk.open(path)
        try:
            self._disk.sync(fd)
        finally:
            self._disk.close(fd)

    def close(self) -> None:
        """Close the file."""
        if self._fd >= 0:
            self._disk.close(self._fd)
            self._fd = -1

    def remove(self) -> None:
        """Remove the files, including those of an earlier attempt; OSError."""
        for suffix in SUFFIXES:
            self._disk.remove(self._path(suffix))
