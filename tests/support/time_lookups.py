"""Lookups by time in one call, as a reference for tests."""

from kwire.log.partition_log import PartitionLog
from kwire.log.time_search import FoundOffset, LargestSearch, TimeSearch
from kwire.record.batch import InvalidRecords
from kwire.record.streaming_decompressor import NO_LIMITS, do_nothing


def offset_for_timestamp(
    log: PartitionLog, timestamp: int, *, end_offset: int
) -> FoundOffset | None:
    """The first record with at least this timestamp before ``end_offset``, else None."""
    found = _search(TimeSearch(log, timestamp))
    return found if found and found.offset < end_offset else None


def max_timestamp(log: PartitionLog) -> FoundOffset | None:
    """The first record with the largest timestamp in the log, None for an empty log."""
    return _search(LargestSearch(log))


def _search(search: TimeSearch) -> FoundOffset | None:
    while not search.is_done:
        opening = search.step()
        if opening is not None:
            try:
                search.add_result(search.search_in_batch(opening, NO_LIMITS, do_nothing))
            except InvalidRecords:
                search.add_result(opening.unread())
    return search.found
