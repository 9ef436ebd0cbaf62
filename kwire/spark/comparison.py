"""Compares a sink's rows of a partition with the broker's records: gaps, doubles, strangers.

Rules:

- The comparison begins at the offset where the pipeline began, or, if nobody knows that offset, at
  the first one that the sink claims. It ends at the last offset that the sink claims or that the
  pipeline has finished.
- The broker's records are those that consumers see. Transaction markers don't count, and with
  ``read_committed`` neither do the records of aborted transactions.
- A gap is a record of the broker that neither the sink nor the dead letters hold. So a record that
  compaction has removed meanwhile is no gap.
- Records of unfinished batches are no gaps. They are counted apart, because a batch may have
  written its rows but not yet its dead letters.
- A double is a row of an offset for which the sink has another row.
- A stranger is a row whose offset lies in the broker's log, where the log has no record with this
  offset. It may come from an aborted transaction, or from another topic with the same name. In a
  compacted topic such a row is no stranger, because compaction removes records that sinks keep.
- A tombstone that the pipeline skips is no gap without a row, and no stranger with one.
- If a topic was deleted and created again, the broker has no record of the earlier topic. So only
  the newest topic is compared, and the rows of earlier ones are counted apart.
- Two kinds of rows can't be compared and are counted apart: rows before the log start offset, and
  rows of a compacted topic whose records compaction has removed.
- Some sinks know ranges of offsets, but not the offset of each row (``Held.offsets`` is None). Here
  the number of rows in each range is compared. Missing rows are gaps. Surplus rows are doubles, and
  so are the records whose offsets lie in several ranges.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from kwire.spark.offset_runs import OffsetRuns, count_repeats, union
from kwire.spark.sink import Held

Partition = tuple[str, int]
"""A topic and the number of its partition."""

MOST_EXAMPLES = 5


@dataclass(slots=True)
class Claim:
    """The rows of one partition that a sink says it holds."""

    covered: OffsetRuns = field(default_factory=OffsetRuns)
    """The offsets of the rows, and all offsets of ranges of which only the row count is known."""
    doubled: OffsetRuns = field(default_factory=OffsetRuns)
    """The offsets that the sink covers more than once."""
    repeats: int = 0
    """The number of surplus rows, among rows whose offsets are known."""
    rows: int = 0
    first: int = 0
    end: int = 0
    counted: dict[tuple[int, int], int] = field(default_factory=dict)
    """The number of rows by range, for ranges of which only the row count is known."""
    earlier: int = 0
    """The number of rows of earlier topics with this name."""


@dataclass(slots=True)
class BrokerOffsets:
    """The records of one partition that the broker has between ``start`` and ``end``."""

    records: OffsetRuns
    start: int
    """The log start offset."""
    end: int
    """The high watermark, or with read_committed the last stable offset."""
    is_compacted: bool = False
    skipped: OffsetRuns = field(default_factory=OffsetRuns)
    """Records that the sink may leave out, and aren't among ``records``: tombstones."""


@dataclass(slots=True)
class Compared:
    """The outcome for one partition; the counts are of rows or records."""

    topic: str
    partition: int
    first: int
    end: int
    broker: int
    sink: int
    dead_letters: int
    unfinished: int
    gaps: int
    doubles: int
    strangers: int
    compacted: int
    deleted: int
    earlier: int
    examples: dict[str, list[tuple[int, int]]]
    """Up to five ranges of offsets for each of gaps, doubles and strangers."""
    spread: int = 0
    """The number of upsert keys with records in several partitions; they can't be compared."""

    @property
    def is_exact(self) -> bool:
        """Whether the sink holds each record once, and nothing else."""
        return not (self.gaps or self.doubles or self.strangers)


def claims_of(
    held: Iterable[Held], incarnations: Mapping[str, int] | None = None
) -> dict[Partition, Claim]:
    """The claims of a sink, by partition; offsets are read one by one and kept as runs.

    ``incarnations`` says how often topics were created again, where that is known. Raises
    ValueError if the offsets of a range don't ascend.
    """
    known: dict[tuple[Partition, int], _Gathered] = {}
    for one in held:
        place = (one.range.topic, one.range.partition)
        gathered = known.setdefault((place, one.range.incarnation), _Gathered())
        gathered.add(one)
    claims: dict[Partition, Claim] = {}
    for place in sorted({place for place, _ in known}):
        numbers = [number for other, number in known if other == place]
        newest = max(*numbers, (incarnations or {}).get(place[0], 0))
        gathered = known.get((place, newest), _Gathered())
        claims[place] = claim = gathered.claim()
        claim.earlier = sum(known[place, number].rows for number in numbers if number != newest)
    return claims


def with_finished(
    claims: Mapping[Partition, Claim],
    finished: Mapping[Partition, int],
    begin_of: Callable[[Partition], int | None],
) -> dict[Partition, Claim]:
    """The claims, extended to all offsets that the pipeline has finished, so that lost rows count.

    ``begin_of`` says where the pipeline began a partition, None if nobody knows.
    """
    found = dict(claims)
    for place, end in finished.items():
        begin = begin_of(place)
        claim = found.setdefault(place, Claim(first=end, end=end))
        claim.end = max(claim.end, end)
        if begin is not None:
            claim.first = min(claim.first, begin)
    return found


class _Gathered:
    """The parts of one partition that a sink has listed so far."""

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []
        self._exact: list[tuple[OffsetRuns, OffsetRuns]] = []
        self._counted: dict[tuple[int, int], int] = {}
        self._repeats = 0
        self.rows = 0

    def add(self, held: Held) -> None:
        """Take one part; ValueError if its offsets don't ascend."""
        span = (held.range.first, held.range.end)
        self._spans.append(span)
        if held.offsets is None:
            self._counted[span] = self._counted.get(span, 0) + held.rows
            self.rows += held.rows
        else:
            found, doubled, repeats = count_repeats(held.offsets)
            self._exact.append((found, doubled))
            self.rows += found.count + repeats
            self._repeats += repeats

    def claim(self) -> Claim:
        """All parts as one claim."""
        ranges = [OffsetRuns([one]) for one in sorted(self._counted)]
        covered, overlapping, _ = union([*(found for found, _ in self._exact), *ranges])
        between = union([found for found, _ in self._exact])[2]
        return Claim(
            covered,
            union([*(doubled for _, doubled in self._exact), overlapping])[0],
            self._repeats + between,
            self.rows,
            min((first for first, _ in self._spans), default=0),
            max((end for _, end in self._spans), default=0),
            self._counted,
        )


def compare(
    place: Partition,
    claim: Claim,
    broker: BrokerOffsets,
    dead_letters: OffsetRuns | None = None,
    finished: int | None = None,
) -> Compared:
    """Compare one partition; see the module's rules.

    ``finished`` is where the pipeline's unfinished batches begin, if that is known.
    """
    dead = dead_letters or OffsetRuns()
    cut = claim.end if finished is None else min(finished, claim.end)
    window = OffsetRuns([(max(claim.first, broker.start), claim.end)])
    there = broker.records.both(window)
    absent = there.minus(claim.covered).minus(dead)
    missing = absent.within(claim.first, cut)
    counted = OffsetRuns(sorted(claim.counted))
    strange = claim.covered.both(window).minus(counted).minus(there).minus(broker.skipped)
    beyond = claim.covered.within(max(broker.end, claim.first), claim.end)
    short, over, unlike = _by_count(claim, broker, dead, cut)
    twice = claim.doubled.both(counted).both(there).count
    gone = union([strange, beyond])[0]
    compacted = gone.minus(beyond) if broker.is_compacted else OffsetRuns()
    strangers = gone.minus(compacted)
    return Compared(
        *place,
        first=claim.first,
        end=claim.end,
        broker=there.count,
        sink=claim.rows,
        dead_letters=dead.both(there).count,
        unfinished=absent.count - missing.count,
        gaps=missing.count + short,
        doubles=claim.repeats + twice + (0 if broker.is_compacted else over),
        strangers=strangers.count,
        compacted=compacted.count + (over if broker.is_compacted else 0),
        deleted=claim.covered.within(claim.first, max(broker.start, claim.first)).count,
        earlier=claim.earlier,
        examples={
            "gaps": _first_of(chain(missing, (one for one, is_short in unlike if is_short))),
            "doubles": _first_of(
                chain(claim.doubled, (one for one, is_short in unlike if not is_short))
            ),
            "strangers": _first_of(strangers),
        },
    )


def _by_count(
    claim: Claim, broker: BrokerOffsets, dead: OffsetRuns, cut: int
) -> tuple[int, int, list[tuple[tuple[int, int], bool]]]:
    """The missing and surplus rows of ranges of which only the row count is known, and the ranges.

    If a range begins before the log start offset, the broker has only its last records. Then rows
    may be missing, but surplus rows can't be seen. If a range ends after ``cut``, rows may be
    missing because the batch isn't finished.
    """
    short = over = 0
    unlike = []
    for (first, end), rows in sorted(claim.counted.items()):
        expected = broker.records.within(first, end)
        missing = expected.count - dead.both(expected).count - rows
        if missing < 0:  # a row may be there for a tombstone, if another setting wrote it
            missing = min(0, missing + broker.skipped.within(first, end).count)
        if (missing > 0 and end > cut) or (missing < 0 and first < broker.start):
            continue
        if missing > 0:
            short += missing
        else:
            over -= missing
        if missing:
            unlike.append(((first, end), missing > 0))
    return short, over, unlike


def _first_of(runs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    kept: Iterator[tuple[int, int]] = iter(runs)
    return [run for _, run in zip(range(MOST_EXAMPLES), kept, strict=False)]
