"""The work of one task of Spark: the rows of a range of offsets, as Arrow's RecordBatches.

Rules:

- The segment's file is opened once, and stays readable when retention or compaction removes it.
- Offsets never go back: records that a compaction has moved meanwhile are neither read twice nor
  left out.
- Damaged bytes raise CorruptSegment with file, position and offsets. No batch is skipped: a read
  returns every row or fails.
- Offsets without a record raise LostRecords, unless compaction has removed the records (``gaps``)
  or the option ``failOnDataLoss`` is false.
- Besides the block of the file, one stretch of decompressed records is in memory: ``STRETCH_BYTES``
  and one batch. A batch may decompress to ``maxBatchBytes``.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np

from kwire.errors import ErrorCode
from kwire.log.checkpoints import CLEANER_OFFSETS
from kwire.record.batch import HEADER_BYTES, InvalidRecords
from kwire.record.compression import MOST_FROM_A_BYTE, Compression, decompress
from kwire.spark.segments.batches import Block, blocks
from kwire.spark.segments.columns import record_batch
from kwire.spark.segments.errors import LostRecords
from kwire.spark.segments.files import OpenSegment, list_segments, open_at
from kwire.spark.segments.gaps import Compaction, gap_of
from kwire.spark.segments.options import Options
from kwire.spark.segments.partitions import partition_at
from kwire.spark.segments.planning import ALL, Bounds, Task

STRETCH_BYTES = 4 * 1024 * 1024


def read_task(task: Task, options: Options, bounds: Bounds = ALL) -> Iterator[Any]:
    """The RecordBatches of a task; raises SegmentsError."""
    offset = task.first
    compaction = Compaction(task.partition)
    while offset < task.end:
        segment, is_rolled = _open_segment(task, offset, options)
        if segment is None:
            return
        with segment:
            position = _position(segment, task, offset)
            for block in blocks(segment, position, task.end, is_rolled=is_rolled):
                _check_gap(task, gap_of(block, offset, task.end), compaction, options)
                block.check_without_rows(offset, task.end)
                chosen = block.wanted(task, bounds)
                chosen = chosen[block.last_offsets()[chosen] >= offset]
                yield from _rows(block, chosen, task, options, bounds)
                offset = max(offset, int(block.last_offsets()[-1]) + 1)
        if offset >= task.end:
            return
        bases = list_segments(task.partition.directory).bases
        following = [base for base in bases if base >= offset and base > segment.base]
        if not following:
            _check_loss(task, f"ends at offset {offset}", offset, options)
            return
        end = min(following[0], task.end)
        if offset < end:
            _check_gap(task, (offset, end), compaction, options)
        offset = end


def _check_gap(
    task: Task, gap: tuple[int, int] | None, compaction: Compaction, options: Options
) -> None:
    """Raise LostRecords for offsets without a record that compaction has not removed."""
    if gap and options.fails_on_data_loss and not compaction.reached(gap[1]):
        raise LostRecords(
            f"{task.partition.directory} lacks the offsets {gap[0]} to {gap[1] - 1}, and nothing"
            f" says that compaction has been there ({CLEANER_OFFSETS}, batches with fewer records"
            " than offsets); failOnDataLoss=false reads what is there"
        )


def _open_segment(task: Task, offset: int, options: Options) -> tuple[OpenSegment | None, bool]:
    """The segment that has an offset, and whether it is rolled; None if it is lost and may be."""
    part = task.partition
    try:
        # A broker trims a segment before the next one is there, so this is listed first.
        last = max(list_segments(part.directory).bases, default=-1)
        segment = open_at(part.directory, offset)
        now = partition_at(part.directory)
    except FileNotFoundError as error:
        raise LostRecords(f"{part.directory} was removed while it was read") from error
    if now is not None:
        now.check_id(part.topic_id)
    if segment is not None:
        return segment, segment.base < last
    bases = list_segments(part.directory).bases
    _check_loss(
        task, f"begins at offset {bases[0]}" if bases else "has no segment", offset, options
    )
    if not bases or bases[0] >= task.end:
        return None, False
    return open_at(part.directory, bases[0]), bases[0] < last


def _check_loss(task: Task, what: str, offset: int, options: Options) -> None:
    """Raise LostRecords, if that isn't allowed."""
    if options.fails_on_data_loss:
        raise LostRecords(
            f"{task.partition.directory} {what}, and the offsets {offset} to {task.end - 1} were"
            " to be read; failOnDataLoss=false reads what is there"
        )


def _position(segment: OpenSegment, task: Task, offset: int) -> int:
    """The position of a batch at or before the one that has ``offset``."""
    if segment.base == task.base and offset == task.first and task.position:
        header = next(segment.headers(task.position), None)
        if header is not None and segment.base <= header.base_offset <= offset:
            first = int.from_bytes(segment.read(task.position + 16, 1), "big")
            if first == 2 and header.last_offset >= header.base_offset:
                return task.position
    return segment.position_before(offset)


def _rows(block: Block, chosen: Any, task: Task, options: Options, bounds: Bounds) -> Iterator[Any]:
    """The rows of some batches of a block."""
    first = 0
    pieces: list[Any] = []
    size = 0
    for place, index in enumerate(chosen.tolist()):
        codec, payload = block.payload(index)
        try:
            piece = _decompressed(codec, payload, options.max_batch_bytes)
        except InvalidRecords as error:
            raise block.error(index, str(error)) from error
        pieces.append(piece)
        size += len(piece)
        if size >= STRETCH_BYTES or place + 1 == len(chosen):
            made = _decode(block, chosen[first : place + 1], pieces, task, options, bounds)
            if made is not None:
                yield made
            first, pieces, size = place + 1, [], 0


def _decompressed(codec: int, payload: memoryview, max_bytes: int) -> Any:
    """As ``decompress``; in one call for lz4, if that can't yield more than ``max_bytes``."""
    if codec != Compression.LZ4 or len(payload) * MOST_FROM_A_BYTE[codec] > max_bytes:
        return decompress(codec, payload, max_bytes)
    import lz4.frame

    try:
        return lz4.frame.decompress(payload)
    except RuntimeError as error:
        raise InvalidRecords(
            ErrorCode.CORRUPT_MESSAGE, f"the records are not valid lz4: {error}"
        ) from error


def _decode(
    block: Block,
    indexes: Any,
    pieces: list[Any],
    task: Task,
    options: Options,
    bounds: Bounds,
) -> Any:
    """Decode some batches at once; if that fails, one by one, to name the wrong batch."""
    headers = block.headers[indexes]
    if np.all((headers["attributes"] & 7) == Compression.NONE):
        data = np.frombuffer(block.data, np.uint8)
        starts = block.starts[indexes] + HEADER_BYTES
        ends = block.starts[indexes] + headers["length"] + 12
    else:
        # A few bytes before the first record let it be guessed like the others (find_records).
        data = np.frombuffer(b"".join([bytes(8), *pieces]), np.uint8)
        ends = np.cumsum([len(piece) for piece in pieces]) + 8
        starts = ends - [len(piece) for piece in pieces]
    try:
        return record_batch(data, starts, ends, headers, task, bounds, options.columns)
    except InvalidRecords as error:
        if len(indexes) == 1:
            raise block.error(int(indexes[0]), str(error)) from error
        for place, piece in enumerate(pieces):
            _decode(block, indexes[place : place + 1], [piece], task, options, bounds)
        raise block.error(int(indexes[0]), str(error)) from error
