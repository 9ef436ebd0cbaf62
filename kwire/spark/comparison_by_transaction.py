"""What the sink ``topic`` has committed against what the pipeline has finished.

Rules:

- The records of the target topic don't say where they came from, so they aren't compared. Their
  transactions say it: each commits the offset after its rows, for each source partition.
- A record of the source that the pipeline has finished, and that lies at or after that offset, is a
  gap, unless it is a dead letter: its rows can't have been written.
- A batch commits nothing for a partition without rows, so an offset may stay behind where only dead
  letters, markers and aborted records follow.
- Only the newest checkpoint counts: with one that begins where a topic was created again, the
  sink's groups begin again too.
- Doubles and strangers can't be seen this way. What keeps them out is that rows and offset are one
  transaction.
"""

from collections.abc import Mapping

from kwire.spark.comparison import MOST_EXAMPLES, BrokerOffsets, Compared, Partition
from kwire.spark.offset_runs import OffsetRuns

NOTE = (
    "the rows of a topic don't say which records they came from, so they aren't compared: only the "
    "offsets that their transactions have committed are. The cluster forgets the offsets of a "
    "pipeline that has written nothing for offsets.retention.minutes: then all is a gap"
)
"""What a user has to know beside the table, in one line."""


def compare_committed(
    begins: Mapping[Partition, int],
    finished: Mapping[Partition, int],
    committed: Mapping[Partition, int],
    there: Mapping[Partition, BrokerOffsets],
    dead: Mapping[Partition, OffsetRuns],
) -> list[Compared]:
    """Compare each finished partition; all but ``there`` and ``dead`` are offsets."""
    return [
        _compare(
            place,
            begins.get(place, 0),
            end,
            committed.get(place, 0),
            there[place],
            dead.get(place, OffsetRuns()),
        )
        for place, end in sorted(finished.items())
    ]


def _compare(
    place: Partition,
    begin: int,
    end: int,
    committed: int,
    broker: BrokerOffsets,
    dead: OffsetRuns,
) -> Compared:
    end = max(begin, end)
    records = broker.records.within(begin, end)
    alive = records.minus(dead)
    gaps = alive.within(min(max(committed, begin), end), end)
    return Compared(
        *place,
        first=begin,
        end=end,
        broker=records.count,
        sink=alive.count - gaps.count,
        dead_letters=dead.both(records).count,
        unfinished=0,
        gaps=gaps.count,
        doubles=0,
        strangers=0,
        compacted=0,
        deleted=max(0, min(broker.start, end) - begin),
        earlier=0,
        examples={
            "gaps": [run for _, run in zip(range(MOST_EXAMPLES), gaps, strict=False)],
            "doubles": [],
            "strangers": [],
        },
    )
