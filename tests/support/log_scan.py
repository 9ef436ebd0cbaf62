"""Checking a log against a full reading of its files, without using the log's own code for that.

``check_log`` raises AssertionError if anything that a PartitionLog holds in memory or in extra
files differs from what its records say: offsets, sizes, the indexes and their files, timestamps,
aborted transactions, leader epochs, producers. Nothing may write to the log meanwhile.
"""

from collections.abc import Iterator
from itertools import pairwise
from struct import Struct

from kwire.log.partition_log import PartitionLog
from kwire.log.producer_state import ProducerStates
from kwire.log.segment import LogSegment
from kwire.log.sparse_index import SparseIndex
from kwire.log.transaction_index import AbortedTransaction
from kwire.record.batch import NO_PRODUCER_ID, RecordBatch

_ABORTED = Struct(">hqqqq")


def segment_batches(segment: LogSegment) -> list[tuple[int, RecordBatch]]:
    """Position and batch of everything in a segment's file, with verified checksums."""
    data = segment.path(".log").read_bytes()[: segment.size_bytes]
    assert len(data) == segment.size_bytes, f"{segment.path('.log')} is too short"
    found: list[tuple[int, RecordBatch]] = []
    position = 0
    while position < len(data):
        batch = RecordBatch(data, position)
        batch.verify_crc()
        found.append((position, batch))
        position += batch.size_bytes
    return found


def log_batches(log: PartitionLog) -> Iterator[RecordBatch]:
    """Every batch in the files of a log, including those before the log start offset."""
    for segment in log.segments:
        yield from (batch for _, batch in segment_batches(segment))


def check_log(log: PartitionLog, *, has_gaps: bool = False) -> None:
    """Compare a log's state with its files.

    ``has_gaps`` allows the gaps that compaction and power cuts leave, and what follows from them. A
    producer's last batch may be gone from the files: compaction removed it because of a later one,
    which a power cut then took. The producer snapshot still knows it.
    """
    assert log.segments, "a log has a segment"
    states = ProducerStates()
    epochs: list[tuple[int, int]] = []
    end_offset = log.segments[0].base_offset
    for segment in log.segments:
        assert segment.base_offset == end_offset or (has_gaps and segment.base_offset > end_offset)
        end_offset = segment.base_offset
        batches = segment_batches(segment)
        for _, batch in batches:
            follows = end_offset <= batch.base_offset <= batch.last_offset
            assert follows, f"{batch!r} does not follow {end_offset}"
            assert has_gaps or batch.base_offset == end_offset, f"a gap before {batch!r}"
            end_offset = batch.next_offset
            known = log.leader_epochs.epoch_of(max(batch.base_offset, log.log_start_offset))
            is_there = batch.last_offset >= log.log_start_offset
            assert known == batch.partition_leader_epoch or not is_there, f"{batch!r}, not {known}"
            if batch.partition_leader_epoch > (epochs[-1][0] if epochs else -1):
                epochs.append((batch.partition_leader_epoch, batch.base_offset))
        _check_indexes(segment, batches)
        _check_transactions(log, segment, batches, states)
    if batches or not has_gaps:
        assert log.log_end_offset == end_offset, (log.log_end_offset, end_offset)
    assert log.segments[0].base_offset <= log.log_start_offset <= log.log_end_offset
    assert log.recovery_point <= log.log_end_offset
    if not has_gaps:
        _check_epochs(log, epochs)
    _check_producers(log, states, may_be_ahead=has_gaps)


def _check_indexes(segment: LogSegment, batches: list[tuple[int, RecordBatch]]) -> None:
    """Check that each index entry is right, in the file and in memory, and the segment's state."""
    last_offsets = {position: batch.last_offset for position, batch in batches}
    offsets = _entries(segment.offset_index)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(offsets)), offsets
    for relative, position in offsets:
        assert last_offsets.get(position) == segment.base_offset + relative, (relative, position)
    times = _entries(segment.time_index)
    assert all(a[0] < b[0] and a[1] < b[1] for a, b in pairwise(times)), times
    for timestamp, relative in times:
        before = [b for _, b in batches if b.last_offset <= segment.base_offset + relative]
        assert before, times
        assert before[-1].last_offset == segment.base_offset + relative, times
        assert max(b.max_timestamp for b in before) == timestamp, (timestamp, relative)
    largest = max((batch.max_timestamp for _, batch in batches), default=-1)
    assert segment.max_timestamp == largest, (segment.max_timestamp, largest)
    where = next((b.last_offset for _, b in batches if b.max_timestamp == largest), -1)
    assert segment.max_timestamp_offset == where or largest < 0, (
        "the largest timestamp is elsewhere"
    )


def _entries(index: SparseIndex) -> list[tuple[int, int]]:
    """The entries in an index's file, after which only zeros may follow."""
    path = index.path
    data = path.read_bytes() if path.exists() else b""
    size = index.entries * index.ENTRY.size
    assert len(data) >= size, f"{path} is too short"
    # A partial entry may follow that the disk refused: the next append overwrites it.
    assert not data[size + index.ENTRY.size :].strip(b"\0"), f"{path} has more entries"
    found = [(first, second) for first, second in index.ENTRY.iter_unpack(data[:size])]
    assert index.last == (found[-1] if found else (-1, -1)), f"{path} ends otherwise"
    return found


def _check_transactions(
    log: PartitionLog,
    segment: LogSegment,
    batches: list[tuple[int, RecordBatch]],
    states: ProducerStates,
) -> None:
    """Check that the file lists exactly the aborted transactions that the markers end."""
    wanted = []
    for _, batch in batches:
        if batch.producer_id == NO_PRODUCER_ID:
            continue
        aborted = states.update(batch)
        if aborted is not None:
            wanted.append(aborted)
    found = segment.transaction_index.entries()
    path = segment.transaction_index.path
    data = path.read_bytes() if path.exists() else b""
    whole = len(data) - len(data) % _ABORTED.size  # the disk may have refused the rest so far
    kept = [AbortedTransaction(*row[1:]) for row in _ABORTED.iter_unpack(data[:whole])]
    assert kept == found[: len(kept)], f"{path} has {kept}, the log {found}"
    # If a transaction's first segment was deleted, only the index knows where it began, if at all.
    kept_from = log.segments[0].base_offset
    known = {entry[:3] for entry in found if entry.first_offset >= kept_from}
    begun_before = {(e.producer_id, e.last_offset) for e in found if e.first_offset < kept_from}
    sure = {e[:3] for e in wanted if (e.producer_id, e.last_offset) not in begun_before}
    assert known == sure, f"{path}: {known}, not {sure}"


def _check_epochs(log: PartitionLog, epochs: list[tuple[int, int]]) -> None:
    """Check that every epoch with records is known from its first record or the log start on."""
    start = log.log_start_offset
    known = [entry for entry in log.leader_epochs.entries if entry[1] < log.log_end_offset]
    wanted = [entry for entry in epochs if entry[1] > start]
    before = [epoch for epoch, offset in epochs if offset <= start < log.log_end_offset]
    if before:
        wanted.insert(0, (before[-1], start))
    assert known == wanted, f"leader epochs {known}, not {wanted}"


def _check_producers(log: PartitionLog, scanned: ProducerStates, *, may_be_ahead: bool) -> None:
    """Check that the log knows each producer in the records; it may know further producers.

    With ``may_be_ahead`` it may also know a later batch of a producer than the records do.
    """
    for producer_id, wanted in scanned.producers.items():
        found = log.producers.producers.get(producer_id)
        assert found is not None, f"producer {producer_id} is not known"
        is_newer = may_be_ahead and found.producer_epoch > wanted.producer_epoch
        assert is_newer or found.producer_epoch == wanted.producer_epoch
        assert wanted.coordinator_epoch in (found.coordinator_epoch, -1)
        if wanted.batches and not is_newer:
            known, last = found.batches[-1], wanted.batches[-1]
            is_later = may_be_ahead and known.last_offset > last.last_offset
            # A snapshot keeps the producer's last timestamp, which may be that of a marker.
            assert is_later or known[:-1] == last[:-1]
        if wanted.current_txn_first_offset >= 0 and not may_be_ahead:
            assert found.current_txn_first_offset <= wanted.current_txn_first_offset
