"""The entries of index files as they are on the disk, written by kwire or by Apache Kafka.

Formats: see ``kwire.log.sparse_index`` and ``kwire.log.transaction_index``.

Rules: the index of a segment in use has zeros after its last entry. Zeros look like an entry for
the base offset, so such an entry ends the index, unless it is the first entry. An incomplete last
entry is left out.

Source: OffsetIndex, TimeIndex, TransactionIndex of Kafka.
"""

from bisect import bisect_right
from struct import Struct
from typing import NamedTuple

from kwire.log.transaction_index import AbortedTransaction

OFFSET_ENTRY = Struct(">ii")
TIME_ENTRY = Struct(">qi")
TRANSACTION_ENTRY = Struct(">hqqqq")


class OffsetEntry(NamedTuple):
    """The last offset of a batch, and the position of that batch in its segment."""

    offset: int
    position: int


class TimeEntry(NamedTuple):
    """The largest timestamp up to an offset."""

    timestamp: int
    offset: int


class TransactionEntry(NamedTuple):
    """An aborted transaction, and the version of the entry."""

    version: int
    aborted: AbortedTransaction


def offset_entries(data: bytes, base_offset: int) -> list[OffsetEntry]:
    """The entries of an ``.index``."""
    entries: list[OffsetEntry] = []
    for relative, position in OFFSET_ENTRY.iter_unpack(_whole(data, OFFSET_ENTRY)):
        if relative == 0 and entries:
            break
        entries.append(OffsetEntry(base_offset + relative, position))
    return entries


def time_entries(data: bytes, base_offset: int) -> list[TimeEntry]:
    """The entries of a ``.timeindex``."""
    entries: list[TimeEntry] = []
    for timestamp, relative in TIME_ENTRY.iter_unpack(_whole(data, TIME_ENTRY)):
        if relative == 0 and entries:
            break
        entries.append(TimeEntry(timestamp, base_offset + relative))
    return entries


def transaction_entries(data: bytes) -> list[TransactionEntry]:
    """The entries of a ``.txnindex``."""
    rows = TRANSACTION_ENTRY.iter_unpack(_whole(data, TRANSACTION_ENTRY))
    return [TransactionEntry(version, AbortedTransaction(*row)) for version, *row in rows]


def entry_before(entries: list[OffsetEntry], offset: int) -> OffsetEntry | None:
    """The last entry at or before ``offset``, from which a search for ``offset`` starts."""
    place = bisect_right(entries, offset, key=lambda entry: entry.offset)
    return entries[place - 1] if place else None


def _whole(data: bytes, entry: Struct) -> bytes:
    return data[: len(data) - len(data) % entry.size]
