"""What became of tombstones at which offsets, for ``verify`` after ``[sink] tombstones`` changed.

With ``skip`` a tombstone without a row is right, otherwise it is a gap. A pipeline whose setting is
another one since has tombstones of both kinds in its table.

Rules:

- A batch's way is noted before its rows are written, and that of a replayed range after it. Where
  nothing was noted, the way is the one of the first batch that ever was.
- The file ``tombstones.json`` beside the checkpoints has that way as ``first``, and ``changes``:
  topic, incarnation, partition, and at which offsets another way begins. It is written only where
  the way changes, under a lock, because ``replay`` may run beside the stream.
"""

import json
from collections.abc import Iterable, Iterator

from kwire.spark.batch import OffsetRange
from kwire.spark.offset_runs import OffsetRuns
from kwire.spark.storage import Storage
from kwire.spark.tombstones import SKIP

FILE = "tombstones.json"
_LOCK = "tombstones.lock"
_END = (1 << 63) - 1

_Key = tuple[str, int, int]
"""Topic, incarnation, partition."""


class TombstoneWays:
    """The ways of a pipeline; ``now`` is that of the settings."""

    def __init__(self, storage: Storage, now: str) -> None:
        self._storage = storage
        self._now = now
        self._first = now
        self._changes: dict[_Key, list[tuple[int, str]]] = {}
        self._is_noted = self._read()

    def start_batch(self, ranges: Iterable[OffsetRange]) -> None:
        """Note that the present way holds from the first offsets of ranges on."""
        self._record_spans([(_key(one), one.first, _END) for one in ranges])

    def replaced(self, ranges: Iterable[OffsetRange]) -> None:
        """Note that the rows of ranges were made anew, in the present way."""
        self._record_spans([(_key(one), one.first, one.end) for one in ranges])

    def skipped(self, topic: str, partition: int, incarnation: int) -> OffsetRuns:
        """The offsets at which tombstones are left out."""
        found = OffsetRuns()
        for first, end, way in self._runs((topic, incarnation, partition)):
            if way == SKIP:
                found.add(first, end)
        return found

    def _runs(self, key: _Key) -> Iterator[tuple[int, int, str]]:
        begins = [(0, self._first), *self._changes.get(key, [])]
        ends = [*(first for first, _ in begins[1:]), _END]
        for (first, way), end in zip(begins, ends, strict=True):
            yield first, end, way

    def _is_so(self, key: _Key, first: int, end: int) -> bool:
        return all(
            way == self._now
            for one, other, way in self._runs(key)
            if max(one, first) < min(other, end)
        )

    def _record_spans(self, spans: list[tuple[_Key, int, int]]) -> None:
        if self._is_noted and all(self._is_so(*one) for one in spans):
            return
        with self._storage.locked(_LOCK):
            self._read()
            for key, first, end in spans:
                if not self._is_so(key, first, end):
                    self._changes[key] = list(self._with(key, first, end))
            changes = [[*key, found] for key, found in sorted(self._changes.items())]
            row = {"first": self._first, "changes": changes}
            self._storage.write(FILE, json.dumps(row).encode())
            self._is_noted = True

    def _with(self, key: _Key, begin: int, stop: int) -> Iterator[tuple[int, str]]:
        """The changes of a partition, with the present way from one offset to another."""
        before = [(first, min(end, begin), way) for first, end, way in self._runs(key)]
        after = [(max(first, stop), end, way) for first, end, way in self._runs(key)]
        last = self._first
        for first, end, way in (*before, (begin, stop, self._now), *after):
            if first < end and way != last:
                yield first, way
                last = way

    def _read(self) -> bool:
        """Read the file; whether there is one."""
        content = self._storage.read(FILE)
        if content is None:
            return False
        found = json.loads(content)
        self._first = found["first"]
        self._changes = {
            (topic, incarnation, partition): [(first, way) for first, way in changes]
            for topic, incarnation, partition, changes in found["changes"]
        }
        return True


def _key(offsets: OffsetRange) -> _Key:
    return offsets.topic, offsets.incarnation, offsets.partition
