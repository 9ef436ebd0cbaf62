"""The producers' state of a log that is opened or cut: a snapshot and the batches after it.

Rules: of the snapshots, those where a segment begins are kept, and the newest; others are left from
clean stops and go. Source: ProducerStateManager.truncateAndReload, removeStraySnapshots of Kafka.
"""

from collections.abc import Sequence
from pathlib import Path

from kwire.log.disk import Disk
from kwire.log.producer_state import ProducerStates, load_snapshot, snapshot_offsets, snapshot_path
from kwire.log.segment import LogSegment
from kwire.record.batch import NO_PRODUCER_ID


def rebuild_producers(
    directory: Path,
    segments: Sequence[LogSegment],
    log_end_offset: int,
    disk: Disk,
    *,
    trusted_to: int | None = None,
) -> ProducerStates:
    """The state at the log end offset; snapshots from beyond it are removed.

    Batches before the log start offset count as long as they are there. Batches from
    ``trusted_to`` on are replayed even where a later snapshot exists: that part of the log was
    recovered, and its transaction indexes may lack entries.
    """
    states, offset = ProducerStates(), segments[0].base_offset
    for candidate in reversed(_without_strays(directory, segments, disk)):
        if candidate > log_end_offset:
            disk.remove(snapshot_path(directory, candidate))
            continue
        if trusted_to is not None and candidate > trusted_to:
            continue
        loaded = load_snapshot(directory, candidate, disk)
        if loaded is not None:
            states, offset = loaded, max(candidate, offset)
            break
        disk.remove(snapshot_path(directory, candidate))
    if offset < log_end_offset:
        ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
        for segment, end in zip(segments, ends, strict=True):
            if end > offset:
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


def _replay(segment: LogSegment, states: ProducerStates, offset: int) -> None:
    """Take the batches from ``offset`` on into account."""
    known = {entry.last_offset for entry in segment.transaction_index.entries()}
    start = segment.find(offset)
    for header in segment.headers(start.position) if start else ():
        if header.producer_id == NO_PRODUCER_ID:
            continue
        aborted = states.update(segment.batch_at(header))
        if aborted is not None and aborted.last_offset not in known:
            segment.transaction_index.append(aborted)
