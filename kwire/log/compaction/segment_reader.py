"""Going through the batches of the segments that are cleaned.

Rules:

- ``buffer_bytes`` are read at a time, or a batch where one is larger; the buffer stays as large as
  the largest batch so far.
- A batch whose records nobody needs isn't read where it doesn't happen to be in the buffer: only
  its header is.
- A segment is made of whole batches: InvalidRecords where it isn't.
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
"""What is read behind a batch that was passed over, for the next one may be as well."""


def always(batch: RecordBatch) -> bool:
    """Every batch is needed."""
    return True


class SegmentReader:
    """Reads the segments in ``directory``; ``throttle`` is told of the bytes that were read."""

    def __init__(self, directory: Path, buffer_bytes: int, disk: Disk, throttle: Throttle) -> None:
        self._directory = directory
        self._buffer_bytes = max(buffer_bytes, LEAST_BUFFER_BYTES)
        self._disk = disk
        self._throttle = throttle

    def batches(
        self, segment: SourceSegment, is_needed: Callable[[RecordBatch], bool] = always
    ) -> Iterator[RecordBatch]:
        """Every batch of a segment; one that isn't needed perhaps without its records. OSError."""
        fd = self._disk.open(self._directory / f"{segment.base_offset:020d}{LOG_SUFFIX}")
        position, end = 0, segment.size_bytes
        wanted = self._buffer_bytes
        try:
            while position < end:
                chunk = self._disk.pread(fd, min(wanted, end - position), position)
                self._throttle.take(len(chunk))
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
