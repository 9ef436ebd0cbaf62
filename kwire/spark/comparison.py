"""What a sink holds of a partition against what the broker holds: gaps, doubles, strangers.

Rules:

- Offsets are compared from the first one that the sink claims, or where the pipeline began if that
  is known, to the last one that the sink claims or that the pipeline has finished.
- What the broker holds are the records that consumers see: markers, and with ``read_committed`` the
  records of aborted transactions, aren't among them.
- A gap is a record of the broker that neither the sink nor the dead letters hold. So a record that
  compaction has removed meanwhile is no gap.
- What the pipeline hasn't finished to read is no gap, but counted apart: of the batch under way
  rows may be there and dead letters not yet.
- A stranger is a row whose offset the broker's log covers without a record there: a row of an
  aborted record, or of another topic with the same name. Where the topic is compacted it is no
  stranger, because compaction removes records that sinks keep.
- Only the newest topic of a name is compared: of one that was created again, the broker has none of
  the earlier records. Their rows are counted apart.
- Rows before the log start offset, and rows of a compacted topic that compaction has removed, can't
  be compared. They are counted apart.
- A sink that knows ranges but not its rows' offsets (``Held.offsets`` is None) is compared by the
  count of each range. Rows too few are gaps, rows too many are doubles, and so are the records of
  offsets that several ranges have.
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
    """What a sink says that it holds of one partition."""

    covered: OffsetRuns = field(default_factory=OffsetRuns)
    """The offsets of its rows, and all offsets of ranges that it knows by their counts only."""
    doubled: OffsetRuns = field(default_factory=OffsetRuns)
    """The offsets that it covers more than once."""
    repeats: int = 0
    """Rows too many, of those whose offsets it knows."""
    rows: int = 0
    first: int = 0
    end: int = 0
    counted: dict[tuple[int, int], int] = field(default_factory=dict)
    """Rows by range, for the ranges that it knows by their counts only."""
    earlier: int = 0
    """Rows of the topic before it was created again."""


@dataclass(slots=True)
class BrokerOffsets:
    """What the broker holds of one partition between ``start`` and ``end``."""

    records: OffsetRuns
    start: int
    """The log start offset."""
    end: int
    """The high watermark, or with read_committed the last stable offset."""
    is_compacted: bool = False


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
    """Keys of upserts with records in several partitions, which can't be compared."""

    @property
    def is_exact(self) -> bool:
        """Whether the sink holds each record once, and nothing else."""
        return not (self.gaps or self.doubles or self.strangers)


def claims_of(
    held: Iterable[Held], incarnations: Mapping[str, int] | None = None
) -> dict[Partition, Claim]:
    """What a sink holds, by partition; offsets are read while ``held`` is, and kept as runs.

    ``incarnations`` says how often topics were created again, as far as anybody knows. ValueError
    if the offsets of a range don't ascend.
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
    """The claims, as far as the pipeline has finished: also where the sink has lost the rows.

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
    """What a sink holds of one partition of one topic, as it tells it."""

    def __init__(self) -> None:
        self._spans: list[tuple[int, int]] = []
        self._exact: list[tuple[OffsetRuns, OffsetRuns]] = []
        self._counted: dict[tuple[int, int], int] = {}
        self._repeats = 0
        self.rows = 0

    def add(self, one: Held) -> None:
        """Take one part; ValueError if its offsets don't ascend."""
        span = (one.range.first, one.range.end)
        self._spans.append(span)
        if one.offsets is None:
            self._counted[span] = self._counted.get(span, 0) + one.rows
            self.rows += one.rows
        else:
            found, doubled, repeats = count_repeats(one.offsets)
            self._exact.append((found, doubled))
            self.rows += found.count + repeats
            self._repeats += repeats

    def claim(self) -> Claim:
        """All parts as one."""
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
    strange = claim.covered.both(window).minus(counted).minus(there)
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
    """Rows too few and too many in ranges known by their counts, and which ranges these are.

    Of a range that begins before the log start offset the broker has the last records only, so it
    can have rows too few, and never too many. One that ends after ``cut`` may have rows too few,
    because its batch isn't finished.
    """
    short = over = 0
    unlike = []
    for (first, end), rows in sorted(claim.counted.items()):
        expected = broker.records.within(first, end)
        missing = expected.count - dead.both(expected).count - rows
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
