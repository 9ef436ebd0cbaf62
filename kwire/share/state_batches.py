"""The persistent delivery states of a share partition's records, as batches of equal records.

Rules:

- The batches of a list don't overlap, and are in order. Neighbors that are equal are one batch.
- Where a new batch overlaps an older one, the greater delivery count wins, then the greater state,
  then the new batch. So a write that arrives late can't take back an acknowledgement.
- Offsets before the start offset have no state: the group is done with them.

Source: PersisterStateBatchCombiner of Kafka.
"""

from bisect import bisect_left
from collections.abc import Iterable
from enum import IntEnum
from operator import attrgetter
from typing import NamedTuple


class RecordState(IntEnum):
    """The state of a record for a share group; Kafka's numbers."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVING = 3
    ARCHIVED = 4


class StateBatch(NamedTuple):
    """Records with the same state and delivery count, by the first and last offset."""

    first_offset: int
    last_offset: int
    delivery_state: int
    delivery_count: int


_last_offset = attrgetter("last_offset")


def merge_batches(batches: list[StateBatch], new: Iterable[StateBatch], start_offset: int) -> None:
    """Put new batches into a list, and drop all before the start offset."""
    for batch in new:
        if batch.first_offset <= batch.last_offset:
            _put(batches, batch)
    _trim(batches, start_offset)


def _put(batches: list[StateBatch], new: StateBatch) -> None:
    begin = end = bisect_left(batches, new.first_offset, key=_last_offset)
    pieces: list[StateBatch] = []
    at = new.first_offset
    while end < len(batches) and batches[end].first_offset <= new.last_offset:
        old = batches[end]
        end += 1
        if old.first_offset < at:
            pieces.append(old._replace(last_offset=at - 1))
        elif at < old.first_offset:
            pieces.append(new._replace(first_offset=at, last_offset=old.first_offset - 1))
            at = old.first_offset
        until = min(old.last_offset, new.last_offset)
        winner = old if _rank(old) > _rank(new) else new
        pieces.append(winner._replace(first_offset=at, last_offset=until))
        at = until + 1
        if old.last_offset > until:
            pieces.append(old._replace(first_offset=at))
    if at <= new.last_offset:
        pieces.append(new._replace(first_offset=at))
    begin = max(0, begin - 1)  # the neighbors may be equal to the new batch
    end = min(len(batches), end + 1)
    before = [one for one in batches[begin:end] if one.last_offset < pieces[0].first_offset]
    after = [one for one in batches[begin:end] if one.first_offset > pieces[-1].last_offset]
    batches[begin:end] = _joined([*before, *pieces, *after])


def _rank(batch: StateBatch) -> tuple[int, int]:
    return batch.delivery_count, batch.delivery_state


def _joined(pieces: list[StateBatch]) -> list[StateBatch]:
    joined = pieces[:1]
    for piece in pieces[1:]:
        last = joined[-1]
        if last.last_offset + 1 == piece.first_offset and _rank(last) == _rank(piece):
            joined[-1] = last._replace(last_offset=piece.last_offset)
        else:
            joined.append(piece)
    return joined


def _trim(batches: list[StateBatch], start_offset: int) -> None:
    del batches[: bisect_left(batches, start_offset, key=_last_offset)]
    if batches and batches[0].first_offset < start_offset:
        batches[0] = batches[0]._replace(first_offset=start_offset)
