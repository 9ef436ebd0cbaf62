"""Rebuilding the producer state of a log that is opened or truncated.

The state comes from a snapshot and the batches after it.

Rules: the newest snapshot and those at the base offset of a segment are kept. Other snapshots were
left by clean stops and are removed. Source: ProducerStateManager.truncateAndReload,
removeStraySnapshots of Kafka.
"""

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from kwire.log.disk import Disk
from kwire.log.producer_snapshot import load_snapshot, snapshot_offsets, snapshot_path
from kwire.log.producer_state import NO_LIMIT, ProducerStates
from kwire.log.segment import LogSegment
from kwire.record.batch import NO_PRODUCER_ID, RecordBatch

_FEW = 64


def rebuild_producers(
    directory: Path,
    segments: Sequence[LogSegment],
    log_end_offset: int,
    disk: Disk,
    *,
    limit: int = NO_LIMIT,
    recovered: Mapping[int, Sequence[int]] = MappingProxyType({}),
) -> ProducerStates:
    """The producer state at the log end offset; snapshots beyond that offset are removed.

    At most ``limit`` producers are kept. Batches before the log start offset count as long as their
    segment exists. ``recovered`` gives the segments that were read after a crash, by base offset,
    with the positions of their batches that have a producer id. From the first such segment on,
    snapshots are not trusted and transaction indexes may lack entries.
    """
    trusted_to = min(recovered, default=None)
    states, offset = ProducerStates(limit), segments[0].base_offset
    for candidate in reversed(_without_strays(directory, segments, disk)):
        if candidate > log_end_offset:
            disk.remove(snapshot_path(directory, candidate))
            continue
        if trusted_to is not None and candidate > trusted_to:
            continue
        loaded = load_snapshot(directory, candidate, disk, limit)
        if loaded is not None:
            states, offset = loaded, max(candidate, offset)
            break
        disk.remove(snapshot_path(directory, candidate))
    if offset < log_end_offset:
        ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
        for segment, end in zip(segments, ends, strict=True):
            if segment.base_offset in recovered and segment.base_offset >= offset:
                _replay_at(segment, states, recovered[segment.base_offset])
            elif end > offset:
                _replay(segment, states, offset)
    return states


def _without_strays(directory: Path, segments: Sequence[LogSegment], disk: Disk) -> list[int]:
    """The offsets of the snapshots that are kept, ascending."""
    bases = {segment.base_offset for segment in segments}
    found = snapshot_offsets(directory, disk)
    strays = [offset for offset in found[:-1] if offset not in bases]
    for offset in strays:
        disk.remove(snapshot_path(directory, offset))
    return [offset for offset in found if offset not in strays]


def _replay_at(segment: LogSegment, states: ProducerStates, positions: Sequence[int]) -> None:
    """Apply the batches at these positions to the state."""
    wanted = set(positions)
    if len(wanted) <= _FEW:
        for position in positions:
            header = next(segment.headers(position))
            _update(segment, states, segment.batch_at(header), set())
        return
    position = 0
    for batch in segment.batches():
        if position in wanted:
            _update(segment, states, batch, set())
        position += batch.size_bytes


def _update(
    segment: LogSegment, states: ProducerStates, batch: RecordBatch, known: Collection[int]
) -> None:
    aborted = states.update(batch)
    if aborted is not None and aborted.last_offset not in known:
        segment.transaction_index.append(aborted)


def _replay(segment: LogSegment, states: ProducerStates, offset: int) -> None:
    """Apply the batches from ``offset`` on to the state."""
    known = {entry.last_offset for entry in segment.transaction_index.entries()}
    start = segment.find(offset)
    for header in segment.headers(start.position) if start else ():
        if header.producer_id == NO_PRODUCER_ID:
            continue
        _update(segment, states, segment.batch_at(header), known)
