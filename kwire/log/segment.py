"""One segment of a partition's log: a file of batches and its indexes.

Files: ``<base offset as 20 digits>.log``, ``.index``, ``.timeindex``, ``.txnindex``.

Rules:

- ``size_bytes`` is how much of the file counts. Bytes after it were never acknowledged.
- Files are opened on first use. A FileSlice keeps the log file open, so a segment may be deleted
  while a connection still sends from it. Only ``create`` creates the log file: after a deletion,
  ``file`` fails.
- An index entry is added for every ``index.interval.bytes`` of log. It holds the last offset and
  the position of the batch that follows those bytes.
- The offsets and positions of the batches since the last index entry are also in memory, so that
  reads near the end of the log need no index. Only ``sync`` may run in another thread.
- A batch within ``room_bytes``, ``room_offset`` and ``room_timestamp`` needs no further check that
  it fits into the segment (``kwire.log.rolling``). ``room_bytes`` is -1 if the limits aren't known.

Source: LogSegment of Kafka.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from kwire.log.disk import Disk
from kwire.log.open_files import LazyFile, OpenFile
from kwire.log.producer_state import NO_LIMIT
from kwire.log.segment_scan import SegmentScan
from kwire.log.sparse_index import OffsetIndex, TimeIndex
from kwire.log.transaction_index import TransactionIndex
from kwire.protocol.file_slice import FileSlice
from kwire.record.batch import HEADER_BYTES, Buffer, RecordBatch, complete_batches
from kwire.record.batch_scan import BatchHeader, scan_headers

LOG_SUFFIX = ".log"
DELETED_SUFFIX = ".deleted"
MAX_SEGMENT_BYTES = (1 << 31) - 1
SCAN_BYTES = 16 * 1024
CHUNK_BYTES = 1024 * 1024

_INDEX_SUFFIXES = (".index", ".timeindex", ".txnindex")
_MAX_TAIL_BATCHES = 256

ALL_BYTES = -1  # of a batch are still to be written


class LogSegment:
    """The segment that starts at ``base_offset``."""

    __slots__ = (
        "_bytes_since_index",
        "_disk",
        "_file",
        "_first_timestamp",
        "_stem",
        "_tail_offsets",
        "_tail_positions",
        "base_offset",
        "created_ms",
        "directory",
        "index_interval_bytes",
        "max_timestamp",
        "max_timestamp_offset",
        "offset_index",
        "room_bytes",
        "room_offset",
        "room_timestamp",
        "size_bytes",
        "time_index",
        "times_are_sure",
        "transaction_index",
    )

    def __init__(
        self,
        directory: Path,
        base_offset: int,
        disk: Disk,
        *,
        index_bytes: int,
        index_interval_bytes: int,
        created_ms: int = 0,
    ) -> None:
        self.base_offset = base_offset
        self.created_ms = created_ms
        self.directory = directory
        self._stem = f"{base_offset:020d}"
        self._disk = disk
        self._file = LazyFile(directory, self._stem + LOG_SUFFIX, disk)
        self.index_interval_bytes = index_interval_bytes
        self._bytes_since_index = self.size_bytes = 0
        self._first_timestamp: int | None = None
        self._tail_offsets: list[int] = []
        self._tail_positions: list[int] = []
        self.room_bytes = self.room_offset = self.room_timestamp = -1
        self.offset_index = OffsetIndex(directory, self._stem + ".index", disk, index_bytes)
        self.time_index = TimeIndex(directory, self._stem + ".timeindex", disk, index_bytes)
        self.transaction_index = TransactionIndex(directory, self._stem + ".txnindex", disk)
        self.max_timestamp = self.max_timestamp_offset = -1
        self.times_are_sure = True

    def path(self, suffix: str) -> Path:
        """The path of one of the segment's files."""
        return self.directory / (self._stem + suffix)

    def relocate(self, directory: Path) -> None:
        """Note that the log's directory was renamed; open files stay open."""
        self.directory = self._file.directory = self.transaction_index.directory = directory
        self.offset_index.relocate(directory)
        self.time_index.relocate(directory)

    def load(self) -> bool:
        """Take sizes and timestamps from the files; False if an index needs rebuilding."""
        self.size_bytes = self.file().size()
        sound = self.offset_index.load() and self.time_index.load()
        sound = sound and (self.offset_index.last[1] < max(self.size_bytes, 1))
        if sound and self.time_index.entries:
            self.max_timestamp, relative = self.time_index.last
            self.max_timestamp_offset = self.base_offset + relative
        self.times_are_sure = False
        self.offset_index.close()
        self.time_index.close()
        return sound

    def create(self, *, is_first: bool = False) -> None:
        """Create an empty log file. Earlier segments left no files if this one ``is_first``."""
        for suffix in () if is_first else _INDEX_SUFFIXES:
            self._disk.remove(self.path(suffix))
        file = self._file.get(create=True)
        # Only if needed: after a cut to zero, ext4 writes the file out when it is closed.
        if not is_first and file.size():
            file.truncate(0)

    def file(self) -> OpenFile:
        """The open log file; OSError if it was deleted."""
        return self._file.get()

    def first_timestamp(self) -> int:
        """The timestamp of the first batch, from which the segment's age counts; -1 if empty."""
        if self._first_timestamp is None:
            header = next(self.headers(), None)
            if header is None:
                return -1
            self._first_timestamp = header.max_timestamp
        return self._first_timestamp

    def newest_ms(self) -> int:
        """When the newest record was written: its timestamp or, if it has none, the file's."""
        if self.newest_timestamp() >= 0:
            return self.max_timestamp
        return self._disk.modified_ms(self.path(LOG_SUFFIX))

    def write_ahead(self, records: Buffer, distance_bytes: int = 0) -> None:
        """Write at the end, or after a gap there, what still has to be appended."""
        assert distance_bytes >= 0, distance_bytes  # before the end are records
        self._file.get().pwrite_all(records, self.size_bytes + distance_bytes)

    def append(
        self,
        records: Buffer,
        last_offset: int,
        max_timestamp: int,
        max_timestamp_offset: int,
        unwritten_bytes: int = ALL_BYTES,
    ) -> None:
        """Write a batch at the end. After an OSError the segment's state is unchanged.

        ``unwritten_bytes`` are those at its beginning that ``write_ahead`` has not written.
        """
        position = self.size_bytes
        if unwritten_bytes:
            unwritten = records if unwritten_bytes < 0 else memoryview(records)[:unwritten_bytes]
            self._file.get().pwrite_all(unwritten, position)
        if position == 0:
            self._first_timestamp = max_timestamp
        if self._bytes_since_index > self.index_interval_bytes:
            self._note_place(last_offset, position, max_timestamp, max_timestamp_offset)
        elif max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.max_timestamp_offset = max_timestamp_offset
        tail = self._tail_offsets
        if len(tail) >= _MAX_TAIL_BATCHES:
            self._forget_tail()
        tail.append(last_offset)
        self._tail_positions.append(position)
        self._bytes_since_index += len(records)
        self.size_bytes = position + len(records)

    def _note_place(self, last_offset: int, position: int, newest_ms: int, newest_at: int) -> None:
        """Add index entries for the batch at ``position``; an OSError changes nothing."""
        # The batch isn't counted yet: readers that follow the entry find it where the log ends now.
        assert position == self.size_bytes, (position, self.size_bytes)
        # An index entry has the offset relative to the base offset, without a sign.
        assert last_offset >= self.base_offset, (last_offset, self.base_offset)
        offsets = self.offset_index
        before = offsets.entries, offsets.last, self.max_timestamp, self.max_timestamp_offset
        if newest_ms > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = newest_ms, newest_at
        try:
            if not offsets.is_full:
                offsets.append(last_offset - self.base_offset, position)
                if not self.time_index.is_full:
                    self.note_time()
        except OSError:
            offsets.entries, offsets.last, self.max_timestamp, self.max_timestamp_offset = before
            raise
        self._bytes_since_index = 0
        self._forget_tail()
        if offsets.is_full or self.time_index.is_full:
            self.room_bytes = -1

    def _forget_tail(self) -> None:
        """Keep only the last batch of the tail, so that the start of the next batch stays known."""
        del self._tail_offsets[:-1]
        del self._tail_positions[:-1]

    def note_time(self) -> None:
        """Add the largest timestamp to the time index if it is larger than the last entry's."""
        if self.max_timestamp > self.time_index.last[0]:
            relative = self.max_timestamp_offset - self.base_offset
            self.time_index.append(self.max_timestamp, relative)

    def headers(self, position: int = 0, end: int | None = None) -> Iterator[BatchHeader]:
        """Headers of the batches from ``position`` on, where a batch must start."""
        end = self.size_bytes if end is None else end
        file = self.file()
        return scan_headers(lambda at, size: file.pread(size, at), position, end, SCAN_BYTES)

    def batches(self, position: int = 0, end: int | None = None) -> Iterator[RecordBatch]:
        """Complete batches from ``position`` on, where a batch must start; for long reads.

        An incomplete batch ends the iteration; bytes that are no batch raise InvalidRecords.
        """
        end = self.size_bytes if end is None else end
        file = self.file()
        wanted = CHUNK_BYTES
        while position + HEADER_BYTES <= end:
            chunk = file.pread(min(wanted, end - position), position)
            done = 0
            for batch in complete_batches(chunk):
                done = batch.position + batch.size_bytes
                yield batch
            if not done:
                header = next(self.headers(position, end), None)
                if header is None or header.size_bytes <= len(chunk):
                    return
                wanted = header.size_bytes
                continue
            wanted = CHUNK_BYTES
            position += done

    def find(self, offset: int) -> BatchHeader | None:
        """The batch that holds ``offset``, or the first batch after it; None at the end.

        The tail in memory is a fast path to batches near the end. Its slow twin is
        ``position_before``, by the index. tests/log/test_segment.py shows that both agree.
        """
        place = bisect_left(self._tail_offsets, offset)
        # The batch before must be in the tail too, else an earlier one may hold the offset.
        if 0 < place < len(self._tail_offsets):
            position = self._tail_positions[place]
        else:
            position = self.position_before(offset)
        for header in self.headers(position):
            if header.last_offset >= offset:
                return header
        return None

    def position_before(self, offset: int) -> int:
        """The position of a batch at or before the batch with ``offset``, by the offset index.

        Returns 0 if the index gives a position outside the segment.
        """
        entry = self.offset_index.floor(offset - self.base_offset)
        return entry[1] if entry and 0 <= entry[1] < self.size_bytes else 0

    def batch_at(self, header: BatchHeader) -> RecordBatch:
        """The batch with this header, read from the file."""
        return RecordBatch(self.file().pread(header.size_bytes, header.position))

    def slice(self, position: int, size_bytes: int) -> FileSlice:
        """A range of the log file, to be sent to a client."""
        file = self.file()
        return FileSlice(file.fd, position, size_bytes, file)

    def holds(self, records: FileSlice) -> bool:
        """Whether a slice is from this segment's file, which must not have been closed since."""
        return self._file.is_open_as(records.owner)

    def cut(self, position: int, offset: int) -> None:
        """Cut the file at ``position``, where the batch with ``offset`` starts."""
        # A position beyond the end would fill the file with zeros instead.
        assert 0 <= position <= self.size_bytes, (position, self.size_bytes)
        assert offset >= self.base_offset, (offset, self.base_offset)
        self.file().truncate(position)
        self.size_bytes = position
        self.room_bytes = -1
        self._tail_offsets.clear()
        self._tail_positions.clear()
        relative = offset - self.base_offset
        self.offset_index.truncate_to(relative)
        self.time_index.truncate_to(relative, by_second=True)
        self.transaction_index.truncate_to(offset)
        self.max_timestamp, last = self.time_index.last
        self.max_timestamp_offset = self.base_offset + last if last >= 0 else -1
        self._find_max_timestamp()

    def newest_timestamp(self) -> int:
        """The largest timestamp, -1 if there is none; OSError.

        If the indexes leave it in doubt, the first call reads the headers after the last entry of
        the time index. A truncated time index would hide larger timestamps there.
        """
        if not self.times_are_sure:
            self._find_max_timestamp()
            self.times_are_sure = True
        return self.max_timestamp

    def _find_max_timestamp(self) -> None:
        """Look for larger timestamps after the last entry of the time index."""
        indexed = self.base_offset + max(self.time_index.last[1], 0)
        for header in self.headers(self.position_before(indexed)):
            if header.max_timestamp > self.max_timestamp:
                self.max_timestamp = header.max_timestamp
                self.max_timestamp_offset = header.last_offset

    def rebuild(self, scan: SegmentScan) -> None:
        """Keep the sound batches that a scan found, cut the rest, and rebuild the indexes."""
        # A larger sound part would have been read from beyond what counts of the file.
        assert scan.size_bytes <= self.size_bytes, (scan.size_bytes, self.size_bytes)
        assert scan.end_offset >= self.base_offset, (scan.end_offset, self.base_offset)
        if scan.size_bytes < self.size_bytes:
            self.file().truncate(scan.size_bytes)
        self.offset_index.replace(scan.offset_entries)
        self.time_index.replace(scan.time_entries)
        self.transaction_index.truncate_to(0)
        self._tail_offsets.clear()
        self._tail_positions.clear()
        self._bytes_since_index = scan.bytes_since_index
        self.size_bytes = scan.size_bytes
        self.room_bytes = -1
        self._first_timestamp = scan.first_timestamp
        self.max_timestamp = scan.max_timestamp
        self.max_timestamp_offset = scan.max_timestamp_offset
        self.times_are_sure = True
        self.finish()

    def scan(self, progress: Callable[[int], None], producers_kept: int = NO_LIMIT) -> SegmentScan:
        """Read the whole file, as after a crash."""
        file = self.file()
        scan = SegmentScan(
            lambda at, size: file.pread(size, at),
            self.size_bytes,
            self.base_offset,
            self.index_interval_bytes,
            producers_kept,
        )
        scan.scan(progress)
        return scan

    def finish(self) -> None:
        """Complete and trim the indexes, because no more batches will be written."""
        self.note_time()
        self.offset_index.trim()
        self.time_index.trim()

    def files(self, *, log_only: bool = False) -> list[Path]:
        """The paths of the files to sync, of which some may not exist.

        With ``log_only`` the indexes are left out, because recovery rebuilds those of the active
        segment.
        """
        suffixes = (LOG_SUFFIX,) if log_only else (LOG_SUFFIX, *_INDEX_SUFFIXES)
        return [self.path(suffix) for suffix in suffixes]

    def sync(self) -> None:
        """Wait until the files are on the disk; files that were deleted meanwhile don't count.

        The method opens the files by name and changes nothing in this object, so a thread may call
        it.
        """
        for path in self.files():
            self._disk.sync_path(path)

    def close(self) -> None:
        """Close the files; the next use opens them again."""
        self._file.close()
        self.room_bytes = -1
        self._tail_offsets.clear()
        self._tail_positions.clear()
        self.offset_index.close()
        self.time_index.close()

    def delete_later(self) -> list[Path]:
        """Rename the files to ``.deleted``; returns the paths, for removal after a delay."""
        self.close()
        doomed = []
        for suffix in (LOG_SUFFIX, *_INDEX_SUFFIXES):
            path = self.path(suffix)
            target = path.with_name(path.name + DELETED_SUFFIX)
            with suppress(FileNotFoundError):
                self._disk.rename(path, target)
                doomed.append(target)
        # A later read of this segment opens the deleted file, not a new segment of the same name.
        self._file.name = self._stem + LOG_SUFFIX + DELETED_SUFFIX
        return doomed


assert HEADER_BYTES < SCAN_BYTES
