"""The outcomes of a table's keys, counted by partition.

A gap counts for the partition of the key's newest record. Every other outcome counts for the
partition of the row.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kwire.spark.comparison import MOST_EXAMPLES, BrokerOffsets, Compared, Partition
from kwire.spark.offset_runs import OffsetRuns

Runs = Mapping[Partition, OffsetRuns]
"""Offsets by topic and partition."""

FAILING = {"gap": "gaps", "stranger": "strangers"}
"""The outcomes of a key, and the field of Compared that counts each one."""
TWICE = "doubles"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The compared offsets of a partition: finished from ``first`` on, unfinished up to ``end``."""

    first: int
    finished: int
    end: int
    is_compacted: bool = False
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys with the same outcome and the same partitions of their newest record and row."""

    outcome: str
    newest: Partition | None
    """None if the broker has no record of the keys, or a tombstone that has removed the row."""
    row: Partition | None
    count: int
    doubles: int = 0
    """The number of surplus rows of these keys."""


def bounds_of(
    firsts: Mapping[Partition, int],
    finished: Mapping[Partition, int],
    broker_offsets: Mapping[Partition, BrokerOffsets],
    incarnations: Mapping[str, int],
) -> dict[Partition, Bounds]:
    """The compared offsets of each partition that the broker was asked for."""
    return {
        place: Bounds(
            max(firsts.get(place, 0), one.start),
            finished.get(place, 0),
            max(one.end, one.start),
            one.is_compacted,
            incarnations.get(place[0], 0),
        )
        for place, one in broker_offsets.items()
    }


def compared(
    bounds: Mapping[Partition, Bounds],
    keys: Iterable[Keys],
    dead: Runs,
    lost: Runs,
    examples: Mapping[Partition, Mapping[str, list[int]]],
) -> list[Compared]:
    """The outcome for each partition; records in ``lost`` can't be decoded and count as gaps."""
    found = {
        place: _nothing(place, one, dead.get(place), lost.get(place), examples.get(place, {}))
        for place, one in sorted(bounds.items())
    }
    for one in keys:
        if one.newest is not None:
            found[one.newest].broker += one.count
        if one.row is not None:
            found[one.row].sink += one.count + one.doubles
            found[one.row].doubles += one.doubles
        place = one.newest if one.outcome == "gap" else one.row
        place = place or one.newest
        if one.outcome != "exact" and place is not None:
            name = FAILING.get(one.outcome, one.outcome)
            setattr(found[place], name, getattr(found[place], name) + one.count)
    return list(found.values())


def _nothing(
    place: Partition,
    bounds: Bounds,
    dead: OffsetRuns | None,
    lost: OffsetRuns | None,
    examples: Mapping[str, list[int]],
) -> Compared:
    """A partition before its keys are counted."""
    end = max(bounds.first, bounds.finished)
    gaps = lost or OffsetRuns()
    runs = {
        name: [(one, one + 1) for one in sorted(examples.get(name, []))]
        for name in ("gaps", TWICE, "strangers")
    }
    runs["gaps"] = [*gaps, *runs["gaps"]][:MOST_EXAMPLES]
    return Compared(
        *place,
        first=bounds.first,
        end=end,
        broker=0,
        sink=0,
        dead_letters=(dead or OffsetRuns()).within(bounds.first, end).count,
        unfinished=0,
        gaps=gaps.count,
        doubles=0,
        strangers=0,
        compacted=0,
        deleted=0,
        earlier=0,
        examples=runs,
    )
