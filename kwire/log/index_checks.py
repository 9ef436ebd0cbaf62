"""Plausibility checks for the indexes of a segment, which read only its start or end.

Rules:

- The check assumes that the batches are sound, as after a clean stop. An index that fails the check
  is rebuilt from the batches. A scan of every segment at every start would take too long.
- An entry beyond the segment's end is wrong. An index that ends too early is wrong, an empty one
  included, because each ``index.interval.bytes`` of log gets an entry. Apache Kafka's followers
  write many batches at once and leave larger gaps, so up to ``LARGEST_GAP`` bytes may follow the
  last entry.
- The last entry of a time index has the largest timestamp of the segment. The check compares it
  with the batches after the last entry of the offset index, which nearly always contain that
  timestamp. If they don't, ``times_are_sure`` stays False, and ``LogSegment.newest_timestamp``
  reads further when it is called.
- A transaction index is read whole. Readers would else skip records that were committed, or get
  records that were aborted.

Apache Kafka trusts every index file that exists, even an empty one (LogSegment.sanityCheck).
"""

from kwire.log.segment import LogSegment

LARGEST_GAP = 4 * 1024 * 1024


def index_problem(segment: LogSegment, next_base_offset: int | None) -> str:
    """Say what is wrong with the indexes of a segment that was just loaded; "" if nothing is.

    ``next_base_offset`` is the base offset of the next segment. Raises OSError.
    """
    offsets, times = segment.offset_index, segment.time_index
    start = offsets.last[1] if offsets.entries else 0
    gap_bytes = max(segment.index_interval_bytes, LARGEST_GAP if offsets.entries else 0)
    newest = first_offset = last_offset = -1
    for header in segment.headers(start):
        if header.position - start > gap_bytes and not offsets.is_full:
            return "the offset index ends too early"
        if header.position == start:
            first_offset = header.base_offset
        newest = max(newest, header.max_timestamp)
        last_offset = header.last_offset
    end_offset = last_offset + 1 if next_base_offset is None else next_base_offset
    last_entry = segment.base_offset + max(offsets.last[0], times.last[1])
    if (offsets.entries or times.entries) and last_entry >= end_offset:
        return f"an entry is for offset {last_entry}, the segment ends before {end_offset}"
    if offsets.entries and not segment.base_offset <= first_offset <= _last_offset(segment):
        return "the last entry of the offset index points between two batches"
    if not segment.transaction_index.is_sound(segment.base_offset, end_offset):
        return "the transaction index has entries that can't be"
    if newest > times.last[0]:
        return "the time index ends before the newest record"
    newest_at = segment.base_offset + times.last[1]
    segment.times_are_sure = start == 0 or newest_at >= first_offset
    return ""


def _last_offset(segment: LogSegment) -> int:
    """The offset of the last entry of the offset index."""
    return segment.base_offset + segment.offset_index.last[0]
