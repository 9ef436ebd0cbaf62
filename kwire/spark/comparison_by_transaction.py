"""Compares the offsets committed by the sink ``topic`` with the pipeline's finished offsets.

Rules:

- The records of the target topic don't name their source records, so they aren't compared. But
  their transactions do: each commits the offset after its rows, for each source partition.
- A finished source record at or after that offset is a gap, because its rows can't have been
  written. A dead letter is no gap.
- A batch commits no offset for a partition without rows. So an offset may stay behind if only dead
  letters, markers and aborted records follow.
- Only the newest checkpoint counts. If a topic is created again, a new checkpoint begins, and the
  sink's groups begin again, too.
- This comparison can't see doubles and strangers. They can't occur, because rows and offset are one
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
"""A remark for users about the table, in one line."""


def compare_committed(
    begins: Mapping[Partition, int],
    finished: Mapping[Partition, int],
    committed: Mapping[Partition, int],
    broker_offsets: Mapping[Partition, BrokerOffsets],
    dead: Mapping[Partition, OffsetRuns],
) -> list[Compared]:
    """Compare each finished partition; ``broker_offsets`` and ``dead`` apart, all is offsets."""
    return [
        _compare(
            place,
            begins.get(place, 0),
            end,
            committed.get(place, 0),
            broker_offsets[place],
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
