"""Decoding many varints at once, and finding the records of many batches at once.

The end of a record is known only from its length, so records have to be found one after the other.
A loop in Python takes a third of a microsecond for each. ``find_records`` guesses all of them with
numpy instead, then checks the guess as a whole:

- A record begins, after its length, with a byte of attributes, which is always 0. So each byte 0 is
  a candidate, and the bytes before it are its length.
- A candidate stays if another candidate, or the end of the batch, follows directly, and if it is
  the first of its batch or follows another candidate directly.
- In a batch, the candidates are its records if the first one begins where the batch's records do,
  each one ends where the next one begins, the last one ends with the batch, and their number is
  that of the header. A loop would check no more than this, so a guess that passes is right.
- The records of other batches are found by a loop.

Format: see ``kwire.record.records``. Positions are relative to the buffer.

Rules: bytes that aren't records raise InvalidRecords (INVALID_RECORD), never anything else.
"""

from typing import Any

import numpy as np

from kwire.record.streaming_decompressor import invalid
from kwire.record.varint import read_varint

SMALLEST_RECORD_BYTES = 7
"""Length, attributes, both deltas, two lengths and the number of headers take a byte each."""

MOST_CANDIDATES = 12
"""If there are more bytes 0 for each record, as in values full of them, a loop is faster."""

_LENGTH_BYTES = 4
"""The most bytes of a length for which guesses are made, which is 128 MiB."""

_LARGEST_SHIFT = 63


def varints(data: Any, positions: Any) -> tuple[Any, Any]:
    """The values of the varints at these positions, as int64, and the positions after them."""
    try:
        first = data[positions]
        after = positions + 1
        values = (first & 0x7F).astype(np.uint64)
        longer = np.flatnonzero(first & 0x80)
        shift = 7
        while longer.size:
            if shift > _LARGEST_SHIFT:
                raise invalid("a varint is longer than ten bytes")
            byte = data[after[longer]]
            values[longer] |= (byte & 0x7F).astype(np.uint64) << np.uint64(shift)
            after[longer] += 1
            longer = longer[byte >= 0x80]
            shift += 7
    except IndexError:
        raise invalid("the records are cut short") from None
    signed = values.view(np.int64)
    # The lowest bit is the sign; the shift must not copy the sign bit of a ten-byte varint.
    return (values >> np.uint64(1)).view(np.int64) ^ -(signed & 1), after


def find_records(data: Any, starts: Any, ends: Any, counts: Any) -> tuple[Any, Any]:
    """Where each record begins, after its length, and where it ends, in the order of batches.

    ``starts`` and ``ends`` are the positions of the batches' records, ascending, ``counts`` how
    many records each has. Raises InvalidRecords unless every batch is exactly filled by its
    records.
    """
    if np.any(counts < 0) or np.any(counts * SMALLEST_RECORD_BYTES > ends - starts):
        raise invalid("a batch has fewer bytes than its records need")
    if np.any(starts[counts == 0] != ends[counts == 0]):
        raise invalid("the records don't fill their batch")
    total = int(counts.sum())
    begins = np.empty(total, np.int64)
    finishes = np.empty(total, np.int64)
    places = np.cumsum(counts) - counts
    guessed, guessed_ends, batch = _candidates(data, starts, ends, total)
    passed = _passed(data, starts, ends, counts, guessed, guessed_ends, batch)
    if passed.all():
        return guessed, guessed_ends
    right = passed[batch]
    target = np.repeat(passed, counts)
    begins[target], finishes[target] = guessed[right], guessed_ends[right]
    for index in np.flatnonzero(~passed).tolist():
        place, count = int(places[index]), int(counts[index])
        found = _find_in_one(data, int(starts[index]), int(ends[index]), count)
        begins[place : place + count], finishes[place : place + count] = found
    return begins, finishes


def _candidates(data: Any, starts: Any, ends: Any, total: int) -> tuple[Any, Any, Any]:
    """Where records may begin and end, ascending, and the index of each one's batch."""
    nothing = np.empty(0, np.int64)
    zeros = data == 0
    if not 0 < np.count_nonzero(zeros) <= MOST_CANDIDATES * total + 1024:
        return nothing, nothing, nothing
    begins = np.flatnonzero(zeros)
    begins = begins[np.searchsorted(begins, _LENGTH_BYTES) :]
    last = data[begins - 1]
    begins, last = _those((last & 0x80) == 0, begins, last)
    lengths, sizes = _lengths_before(data, begins, last)
    # The bytes before a batch's first record may look like a part of the record's length.
    first_lengths, first_begins = varints(data, starts[ends > starts])
    place = np.searchsorted(begins, first_begins)
    place, first_begins, first_lengths, first_starts = _those(
        place < len(begins), place, first_begins, first_lengths, starts[ends > starts]
    )
    there = begins[place] == first_begins
    lengths[place[there]] = first_lengths[there] << 1
    sizes[place[there]] = (first_begins - first_starts)[there]
    is_length = ((lengths & 1) == 0) & (lengths >= 2 * (SMALLEST_RECORD_BYTES - 1))
    begins, lengths, sizes = _those(is_length, begins, lengths, sizes)
    batch = np.searchsorted(starts, begins, "right") - 1
    finishes = begins + (lengths >> 1)
    fits = (batch >= 0) & (begins - sizes >= starts[batch]) & (finishes <= ends[batch])
    begins, finishes, sizes, batch = _those(fits, begins, finishes, sizes, batch)
    # A record that isn't the last of its batch is followed by the length of another.
    is_last = finishes == ends[batch]
    is_followed = np.zeros(len(data) + 1, bool)
    is_followed[begins - sizes] = True
    begins, finishes, sizes, batch = _those(
        is_last | is_followed[finishes], begins, finishes, sizes, batch
    )
    follows = np.zeros(len(data) + 1, bool)
    follows[finishes] = True
    follows[starts] = True
    begins, finishes, batch = _those(follows[begins - sizes], begins, finishes, batch)
    return begins, finishes, batch


def _lengths_before(data: Any, begins: Any, last: Any) -> tuple[Any, Any]:
    """The varints that end before these positions, as they are encoded, and their sizes."""
    lengths = last.astype(np.int64)
    sizes = np.ones(len(begins), np.int64)
    longer = np.arange(len(begins))
    for size in range(2, _LENGTH_BYTES + 1):
        byte = data[begins[longer] - size]
        more = byte >= 0x80
        longer = longer[more]
        if not longer.size:
            break
        lengths[longer] = lengths[longer] << 7 | (byte[more] & 0x7F)
        sizes[longer] = size
    return lengths, sizes


def _those(keep: Any, *columns: Any) -> Any:
    rows = np.flatnonzero(keep)
    return tuple(column[rows] for column in columns)


def _passed(
    data: Any, starts: Any, ends: Any, counts: Any, begins: Any, finishes: Any, batch: Any
) -> Any:
    """For each batch, whether the candidates in it are its records."""
    passed = np.bincount(batch, minlength=len(counts)) == counts
    if not begins.size:
        return passed
    is_first = np.empty(len(begins), bool)
    is_first[0], is_first[1:] = True, batch[1:] != batch[:-1]
    before = np.empty(len(begins), np.int64)
    before[0], before[1:] = 0, finishes[:-1]
    before[is_first] = starts[batch[is_first]]
    # The length of each record has to begin where the one before it ends.
    lengths, after = varints(data, before)
    wrong = (after != begins) | (begins + lengths != finishes)
    is_last = np.append(is_first[1:], True)
    wrong |= is_last & (finishes != ends[batch])
    passed[batch[wrong]] = False
    return passed


def _find_in_one(data: Any, start: int, end: int, count: int) -> tuple[list[int], list[int]]:
    """As ``find_records``, for one batch, in a loop."""
    view = data[start:end].tobytes()
    at = 0
    begins: list[int] = []
    finishes: list[int] = []
    try:
        for _ in range(count):
            length = view[at]
            if not length & 0x81:
                length >>= 1
                at += 1
            elif not length & 1 and (high := view[at + 1]) < 0x80:
                length = (high << 6) + (length >> 1) - 64
                at += 2
            else:
                length, at = read_varint(view, at)
            if length < SMALLEST_RECORD_BYTES - 1:
                raise invalid("a record is too short")
            begins.append(start + at)
            at += length
            finishes.append(start + at)
    except IndexError:
        raise invalid("the records are cut short") from None
    if start + at != end:
        raise invalid("the records don't fill their batch")
    return begins, finishes
