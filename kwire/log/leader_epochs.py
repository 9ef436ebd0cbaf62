"""The leader epochs of a log and the offsets where they start: ``leader-epoch-checkpoint``.

Rules:

- Epochs and start offsets ascend. An epoch ends where the next one starts.
- A change is made in memory, and ``save`` replaces the file later, in a thread: the event loop
  never waits for the disk. A crash in between loses nothing, because recovery finds the epochs in
  the batches, and because the file is saved before the recovery point passes a batch whose epoch it
  lacks.
- When the log start offset moves, the file may keep earlier epochs until it is next replaced: the
  log start offset has a checkpoint of its own. If a crash undoes the move, the file may also lack
  the first epochs; then recovery finds them in the batches (``prepend``).

Source: LeaderEpochFileCache of Kafka, KIP-101.
"""

import threading
from collections.abc import Sequence
from pathlib import Path

from kwire.log.checkpoints import read_lines, tell_broken, text_of, write_lines
from kwire.log.disk import Disk

FILE_NAME = "leader-epoch-checkpoint"
UNDEFINED = -1
MOST_EPOCH = (1 << 31) - 1
MOST_OFFSET = (1 << 63) - 1


def _are_sound(entries: list[tuple[int, int]]) -> bool:
    """Whether epochs are as they can be: both numbers rise, and fit into a response."""
    pairs = zip(entries, [(-1, 0), *entries], strict=False)
    return all(
        before < epoch <= MOST_EPOCH and start_before <= start <= MOST_OFFSET
        for (epoch, start), (before, start_before) in pairs
    )


class LeaderEpochs:
    """The epochs of one partition, as (epoch, start offset), ascending; those of a new log."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        self._path = directory / FILE_NAME
        self._disk = disk
        self.entries: list[tuple[int, int]] = []
        self._written = self.entries
        # Threads that flush and threads that truncate may save at the same time.
        self._saving = threading.Lock()

    @classmethod
    def read(cls, directory: Path, disk: Disk) -> "LeaderEpochs":
        """The epochs of a log that may have a file; OSError."""
        epochs = cls(directory, disk)
        try:
            entries = [(int(e), int(start)) for e, start in read_lines(epochs._path, disk)]
            if not _are_sound(entries):
                raise ValueError(f"epochs can't be {entries[:5]}")
            epochs.entries = entries
        except ValueError:
            tell_broken(epochs._path)
        epochs._written = epochs.entries
        return epochs

    @property
    def latest(self) -> int:
        """The newest epoch, -1 if there is none."""
        return self.entries[-1][0] if self.entries else UNDEFINED

    def assign(self, epoch: int, start_offset: int) -> None:
        """Note that ``epoch`` writes from ``start_offset`` on; ignored unless the epoch is new."""
        if epoch <= self.latest:
            return
        # No record is left of an epoch that starts at or after the new one's start offset.
        kept = [entry for entry in self.entries if entry[1] < start_offset]
        # ``epoch_of`` and ``end_offset_of`` go by their order; ``save`` looks at it once more.
        assert not kept or kept[-1][0] < epoch, (kept[-1], epoch, start_offset)
        self.entries = [*kept, (epoch, start_offset)]

    def truncate_from_end(self, end_offset: int) -> None:
        """Forget epochs that start at ``end_offset`` or later."""
        self.entries = [entry for entry in self.entries if entry[1] < end_offset]

    def truncate_from_start(self, start_offset: int) -> None:
        """Forget epochs that end at ``start_offset`` or before; the next one then starts there."""
        later = [entry for entry in self.entries if entry[1] > start_offset]
        earlier = [entry for entry in self.entries if entry[1] <= start_offset]
        if earlier:
            later.insert(0, (earlier[-1][0], start_offset))
        self.entries = later

    def prepend(self, first: Sequence[tuple[int, int]]) -> None:
        """Put the epochs of the first records before the known ones; (epoch, start offset)."""
        later = [entry for entry in self.entries if entry[0] > first[-1][0]]
        assert not later or first[-1][1] < later[0][1], (first[-1], later[0])
        self.entries = [*first, *later]

    def clear(self) -> None:
        """Forget all epochs: the log begins anew."""
        self.entries = []

    @property
    def is_saved(self) -> bool:
        """Whether the file has every epoch; it may have older ones, too."""
        return self._written == self.entries

    def save(self) -> None:
        """Replace the file if it is out of date; OSError. Waits for the disk."""
        with self._saving:
            entries = self.entries
            if self._written != entries:
                # ``read`` would refuse other entries, and the start forget all epochs.
                assert _are_sound(entries), entries
                write_lines(self._path, entries, self._disk)
                self._written = entries

    def save_first(self) -> None:
        """Write the file of a new log; OSError. The caller syncs the directory."""
        with self._saving:
            self._disk.replace_file(self._path, text_of(self.entries))
            self._written = self.entries

    def relocate(self, directory: Path) -> None:
        """Have the next ``save`` write the file in another directory."""
        with self._saving:
            self._path = directory / FILE_NAME
            self._written = []

    def epoch_of(self, offset: int) -> int:
        """The epoch that wrote an offset, -1 if unknown."""
        for epoch, start_offset in reversed(self.entries):
            if start_offset <= offset:
                return epoch
        return UNDEFINED

    def end_offset_of(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """The largest epoch up to ``epoch`` and the offset where it ends; (-1, -1) if unknown."""
        if epoch == UNDEFINED or not self.entries:
            return UNDEFINED, UNDEFINED
        if epoch == self.latest:
            return epoch, log_end_offset
        following = [entry for entry in self.entries if entry[0] > epoch]
        if not following:
            return UNDEFINED, UNDEFINED
        before = [entry for entry in self.entries if entry[0] <= epoch]
        if not before:
            return epoch, following[0][1]
        return before[-1][0], following[0][1]
