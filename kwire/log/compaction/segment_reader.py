"""Reading the batches of the segments that a clean reads.

Rules:

- A read takes ``buffer_bytes``, or one batch if that is larger. The buffer keeps the size of the
  largest batch so far.
- If a batch's records aren't needed and the batch isn't wholly in the buffer, only its header is
  read.
- A segment must consist of complete batches, else InvalidRecords is raised.
"""

from collections.abc import Callable, Iterator
from pathlib import Path

from kwire.errors import ErrorCode
from kwire.log.compaction.job import SourceSegment
from kwire.log.compaction.throttle import Throttle
from kwire.log.disk import Disk
from kwire.log.segment import LOG_SUFFIX
from kwire.record.batch import HEADER_BYTES, InvalidRecords, RecordBatch

LEAST_BUFFER_BYTES = 64 * 1024
PEEK_BYTES = 4096
"""The size of a read after a skipped batch, small because the next batch may be skipped too."""


def always(batch: RecordBatch) -> bool:
    """Say that every batch is needed."""
    return True


class SegmentReader:
    """Reads the segments in ``directory``; ``throttle`` counts the bytes that were read."""

    def __init__(self, directory: Path, buffer_bytes: int, disk: Disk, throttle: Throttle) -> None:
        self._directory = directory
        self._buffer_bytes = max(buffer_bytes, LEAST_BUFFER_BYTES)
        self._disk = disk
        self._throttle = throttle

    def batches(
        self, segment: SourceSegment, is_needed: Callable[[RecordBatch], bool] = always
    ) -> Iterator[RecordBatch]:
        """Every batch of a segment; a batch that isn't needed may lack its records. OSError."""
        fd = self._disk.open(self._directory / f"{segment.base_offset:020d}{LOG_SUFFIX}")
        position, end = 0, segment.size_bytes
        wanted = self._buffer_bytes
        try:
            while position < end:
                chunk = self._disk.pread(fd, min(wanted, end - position), position)
                self._throttle.count_bytes(len(chunk))
                at, have = 0, len(chunk)
                wanted = self._buffer_bytes
                while at < have:
                    if have - at < HEADER_BYTES:
                        if position + have >= end or not at:
                            raise _damaged(f"{have - at} bytes at the end of a segment")
                        break
                    batch = RecordBatch(chunk, at, True)
                    after = at + batch.size_bytes
                    if after > have:
                        if position + after > end:
                            raise _damaged(f"a batch of {batch.size_bytes} bytes does not fit")
                        if is_needed(batch):
                            self._buffer_bytes = max(self._buffer_bytes, batch.size_bytes)
                            wanted = self._buffer_bytes
                            break
                        wanted = PEEK_BYTES
                    yield batch
                    at = after
                position += at
        finally:
            self._disk.close(fd)


def _damaged(message: str) -> InvalidRecords:
    return InvalidRecords(ErrorCode.CORRUPT_MESSAGE, message)
