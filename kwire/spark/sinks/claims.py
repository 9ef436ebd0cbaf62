"""The offsets that a file sink covers, including ranges without a file.

A range whose records are all dead letters, markers of transactions, or dropped by a transform has
no file. So after each batch the sink notes the batch's ranges in one small file, ``_kwire/claims``,
which is replaced as a whole. Adjacent ranges become one, so it doesn't grow with the number of
batches. A batch that runs again adds no range.

``expire`` removes ranges from the file. So each change reads the file again, under the sink's lock
(``_kwire/lock``).

The file also names the newest batch. Spark may run that batch again, so no other command may change
the files of its ranges. ``compact`` leaves them alone.

A new checkpoint begins at the start of its topics, and its batches have other ranges. So rows that
the directory already holds would be there twice, under other names. So the file has the ids of the
queries that wrote, and a batch of another query that overlaps what is covered is refused.
"""

import json
from collections.abc import Iterable

from kwire.spark.batch import Batch, OffsetRange
from kwire.spark.storage import Storage

FILE = "_kwire/claims"
"""Without ``.json``: a glob for the rows' files must not find it."""

_Key = tuple[str, int, int]
"""Topic, incarnation, partition."""


class CoveredBefore(RuntimeError):
    """A new checkpoint reads records that the directory already holds; the text is one line."""


class Claims:
    """The ranges that a sink covers; the file is read when the object is made."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._ranges: dict[_Key, list[tuple[int, int]]] = {}
        self._newest: tuple[OffsetRange, ...] = ()
        # None: an earlier version wrote the file, which had no ids.
        self._queries: list[str] | None = []
        content = storage.read(FILE)
        if content is not None:
            found = json.loads(content)
            for one in (OffsetRange(*row) for row in found["ranges"]):
                self._ranges.setdefault(_key(one), []).append((one.first, one.end))
            self._newest = tuple(OffsetRange(*row) for row in found["newest"])
            self._queries = found.get("queries")

    @property
    def newest(self) -> tuple[OffsetRange, ...]:
        """The ranges of the newest batch, which may be written again."""
        return self._newest

    def ranges(self) -> list[OffsetRange]:
        """The covered ranges, in order, adjacent ranges as one."""
        return [
            OffsetRange(topic, partition, first, end, incarnation)
            for (topic, incarnation, partition), spans in sorted(self._ranges.items())
            for first, end in spans
        ]

    def has(self, offsets: OffsetRange) -> bool:
        """Whether the whole of a range is covered."""
        return not list(without(_span(offsets), self._ranges.get(_key(offsets), [])))

    def has_batch(self, batch: Batch) -> bool:
        """Whether a batch was noted: one of a known query, whose ranges are all covered."""
        is_known = self._queries is not None and batch.query_id in self._queries
        return is_known and all(map(self.has, batch.ranges))

    def check(self, batch: Batch) -> None:
        """CoveredBefore if a batch of an unknown query overlaps what is covered."""
        if self._queries is None or batch.query_id in self._queries:
            return
        for one in batch.ranges:
            for first, end in self._ranges.get(_key(one), []):
                if max(first, one.first) < min(end, one.end):
                    raise CoveredBefore(
                        f"{self._storage.url()} has offsets {first} to {end - 1} of "
                        f"{one.topic}-{one.partition} already, by another checkpoint: they would "
                        "be there twice. Use that checkpoint again, or an empty directory"
                    )

    def add(self, batch: Batch) -> None:
        """Note a batch, after its files are in place."""
        known = self._queries or []
        self._queries = known if batch.query_id in known else [*known, batch.query_id]
        for one in batch.ranges:
            self._ranges[_key(one)] = merged([*self._ranges.get(_key(one), []), _span(one)])
        self._newest = batch.ranges
        self._save()

    def expire(self, ends: Iterable[OffsetRange]) -> None:
        """Note that offsets before the end of each range are no longer covered."""
        for one in ends:
            spans = self._ranges.get(_key(one), [])
            left = ((max(first, one.end), end) for first, end in spans)
            self._ranges[_key(one)] = [(first, end) for first, end in left if first < end]
        self._save()

    def _save(self) -> None:
        rows = {
            "ranges": [_row(one) for one in self.ranges()],
            "newest": [_row(one) for one in self._newest],
            "queries": self._queries,
        }
        self._storage.write(FILE, json.dumps(rows).encode())


def merged(spans: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Spans in order; spans that touch or overlap become one."""
    found: list[tuple[int, int]] = []
    for first, end in sorted(spans):
        if found and first <= found[-1][1]:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((first, end))
    return found


def without(span: tuple[int, int], spans: Iterable[tuple[int, int]]) -> Iterable[tuple[int, int]]:
    """The parts of a span that none of the others covers."""
    at, end = span
    for first, last in merged(spans):
        if at < first < end:
            yield at, first
        at = max(at, min(last, end))
    if at < end:
        yield at, end


def _key(offsets: OffsetRange) -> _Key:
    return offsets.topic, offsets.incarnation, offsets.partition


def _span(offsets: OffsetRange) -> tuple[int, int]:
    return offsets.first, offsets.end


def _row(offsets: OffsetRange) -> list[object]:
    return [offsets.topic, offsets.partition, offsets.first, offsets.end, offsets.incarnation]
