"""The indexes of a segment: their entries, and whether the entries match the segment's batches.

Rules (DumpLogSegments, OffsetIndex.sanityCheck, TimeIndex.sanityCheck of Kafka):

- An entry of an offset index has the last offset of the batch at its position.
- An entry of a time index has the last offset of a batch and the largest timestamp in that batch.
  The timestamps ascend.
- The sanity check reads only the index file. A Kafka broker uses the same check to decide whether
  to rebuild an index.
"""

from collections.abc import Iterator
from pathlib import Path

from kwire.log.disk import Disk
from kwire.log.dump.lines import DumpError, Line, Options, Problems, base_offset
from kwire.log.dump.log_files import read_batches
from kwire.log.index_files import (
    OFFSET_ENTRY,
    TIME_ENTRY,
    TRANSACTION_ENTRY,
    TimeEntry,
    entry_before,
    offset_entries,
    time_entries,
    transaction_entries,
)
from kwire.record.batch import InvalidRecords, RecordBatch
from kwire.record.records import records


def dump_offset_index(
    path: Path, options: Options, disk: Disk, problems: Problems
) -> Iterator[Line]:
    """The lines of an ``.index``; DumpError."""
    base = base_offset(path)
    data = _content(path, disk)
    if len(data) < OFFSET_ENTRY.size and not len(data) % OFFSET_ENTRY.size:
        yield Line(f"{path} is empty.", {"type": "emptyIndex"})
        return
    if options.index_sanity_check:
        last = OFFSET_ENTRY.unpack_from(data, _last_position(data, OFFSET_ENTRY.size))[0]
        yield from _sanity(path, len(data), OFFSET_ENTRY.size, last >= 0, problems)
        return
    for entry in offset_entries(data, base):
        batch = _first_batch(path, entry.position, disk, problems)
        if batch is None or batch.last_offset != entry.offset:
            found = "none" if batch is None else batch.last_offset
            problems.error(
                f"Mismatches in :{path.absolute()}",
                f"  Index offset: {entry.offset}, log offset: {found}",
            )
        if not options.verify_index_only:
            fields = {"offset": entry.offset, "position": entry.position}
            yield Line(
                f"offset: {entry.offset} position: {entry.position}",
                {"type": "offsetIndexEntry", **fields},
            )


def dump_time_index(path: Path, options: Options, disk: Disk, problems: Problems) -> Iterator[Line]:
    """The lines of a ``.timeindex``; DumpError."""
    base = base_offset(path)
    data = _content(path, disk)
    if options.index_sanity_check:
        ascends = True
        if len(data) >= TIME_ENTRY.size:
            first = TIME_ENTRY.unpack_from(data)
            last = TIME_ENTRY.unpack_from(data, _last_position(data, TIME_ENTRY.size))
            ascends = last[0] >= first[0] and last[1] >= 0
        yield from _sanity(path, len(data), TIME_ENTRY.size, ascends, problems)
        return
    positions = offset_entries(_content(path.with_suffix(".index"), disk), base)
    previous = -1
    for entry in time_entries(data, base):
        nearest = entry_before(positions, entry.offset)
        _check_time(path, entry, nearest.position if nearest else 0, disk, problems)
        if previous >= entry.timestamp:
            problems.error(
                f"Found out of order timestamp in :{path.absolute()}",
                f"  Index timestamp: {entry.timestamp}, Previously indexed timestamp: {previous}",
            )
        previous = entry.timestamp
        if not options.verify_index_only:
            yield Line(
                f"timestamp: {entry.timestamp} offset: {entry.offset}",
                {"type": "timeIndexEntry", **entry._asdict()},
            )


def dump_transaction_index(path: Path, disk: Disk, problems: Problems) -> Iterator[Line]:
    """The lines of a ``.txnindex``."""
    data = _content(path, disk)
    if len(data) % TRANSACTION_ENTRY.size:
        problems.error(f"{path} ends with an incomplete entry")
    for version, aborted in transaction_entries(data):
        fields = {
            "version": version,
            "producerId": aborted.producer_id,
            "firstOffset": aborted.first_offset,
            "lastOffset": aborted.last_offset,
            "lastStableOffset": aborted.last_stable_offset,
        }
        text = " ".join(f"{name}: {value}" for name, value in fields.items())
        yield Line(text, {"type": "abortedTransaction", **fields})


def _content(path: Path, disk: Disk) -> bytes:
    data = disk.read_bytes(path)
    if data is None:
        raise DumpError(f"{path} does not exist")
    return data


def _last_position(data: bytes, entry_bytes: int) -> int:
    """The position of the last complete entry."""
    return (len(data) // entry_bytes - 1) * entry_bytes if len(data) >= entry_bytes else 0


def _sanity(
    path: Path, size_bytes: int, entry_bytes: int, ascends: bool, problems: Problems
) -> Iterator[Line]:
    if size_bytes % entry_bytes:
        why = f"its size of {size_bytes} bytes is not a multiple of {entry_bytes}, an entry's size"
    elif not ascends:
        why = "its last entry is not greater than its first"
    else:
        yield Line(f"{path} passed sanity check.", {"type": "sanityCheck", "passed": True})
        return
    problems.error(f"{path} failed sanity check: {why}")
    yield Line(f"{path} failed sanity check.", {"type": "sanityCheck", "passed": False})


def _first_batch(path: Path, position: int, disk: Disk, problems: Problems) -> RecordBatch | None:
    for batch in _batches(path, position, disk, problems):
        return batch
    return None


def _batches(path: Path, position: int, disk: Disk, problems: Problems) -> Iterator[RecordBatch]:
    """The batches from ``position`` on in the segment of the index ``path``."""
    if position >= 0:
        yield from read_batches(path.with_suffix(".log"), disk, problems, position)


def _check_time(
    path: Path, entry: TimeEntry, position: int, disk: Disk, problems: Problems
) -> None:
    for batch in _batches(path, position, disk, problems):
        if batch.last_offset < entry.offset:
            continue
        if batch.last_offset != entry.offset:
            _offset_not_found(entry, batch.last_offset, problems)
            return
        try:
            largest = max((record.timestamp for record in records(batch)), default=-1)
        except InvalidRecords as error:
            problems.error(f"{path.with_suffix('.log')}: {error.message}")
            return
        if largest != entry.timestamp:
            problems.error(
                f"Found timestamp mismatch in :{path.absolute()}",
                f"  Index timestamp: {entry.timestamp}, log timestamp: {largest}",
            )
        return
    _offset_not_found(entry, -1, problems)


def _offset_not_found(entry: TimeEntry, found: int, problems: Problems) -> None:
    problems.error(
        "The following indexed offsets are not found in the log.",
        f"Indexed offset: {entry.offset}, found log offset: {found}",
    )
