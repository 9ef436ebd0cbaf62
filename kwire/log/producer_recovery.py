"""The producers' state of a log that is opened or cut: a snapshot and the batches after it."""

from collections.abc import Sequence
from pathlib import Path

from kwire.log.disk import Disk
from kwire.log.producer_state import ProducerStates, load_snapshot, snapshot_offsets, snapshot_path
from kwire.log.segment import LogSegment


def rebuild_producers(
    directory: Path,
    segments: Sequence[LogSegment],
    log_start_offset: int,
    log_end_offset: int,
    disk: Disk,
    *,
    trusted_to: int | None = None,
) -> ProducerStates:
    """The state at the log end offset; snapshots from beyond it are removed.

    Batches from ``trusted_to`` on are replayed even where a later snapshot exists: that part of the
    log was recovered, and its transaction indexes may lack entries.
    """
    states, offset = ProducerStates(), log_start_offset
    for candidate in reversed(snapshot_offsets(directory)):
        if candidate > log_end_offset:
            disk.remove(snapshot_path(directory, candidate))
            continue
        if trusted_to is not None and candidate > trusted_to:
            continue
        loaded = load_snapshot(directory, candidate)
        if loaded is not None:
            states, offset = loaded, max(candidate, offset)
            break
    if offset < log_end_offset:
        ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
        for segment, end in zip(segments, ends, strict=True):
            if end > offset:
                _replay(segment, states, offset)
    return states


def _replay(segment: LogSegment, states: ProducerStates, offset: int) -> None:
    """Take the batches from ``offset`` on into account."""
    known = {entry.last_offset for entry in segment.transaction_index.entries()}
    for header in segment.headers():
        if header.last_offset < offset:
            continue
        batch = segment.batch_at(header)
        if not batch.has_producer_id:
            continue
        aborted = states.update(batch)
        if aborted is not None and aborted.last_offset not in known:
            segment.transaction_index.append(aborted)
