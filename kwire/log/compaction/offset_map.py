"""The last offset of each key, in limited memory.

While the keys themselves fit into the memory limit they are kept in a dictionary, which is fast.
Beyond that they move into a table of hashes, which nearly always has room for all keys.

Format of the table: slots of 24 bytes, ``MD5 of the key | offset int64``; a slot of zeros is free.
The slot of a key is searched at several numbers taken from its hash, then slot after slot.

Rules:

- The table's capacity limits the number of keys in both forms. At ``load_factor`` the map is full,
  and the clean ends at the last offset that the map has taken in. At least one slot stays free.
- In the table, two keys with the same MD5 count as one, as in Kafka.

Source: SkimpyOffsetMap of Kafka.
"""

from array import array
from bisect import bisect_left
from collections.abc import Sequence
from hashlib import md5
from itertools import repeat
from struct import Struct
from sys import getsizeof
from typing import Final

ENTRY_BYTES: Final = 24
LEAST_SLOTS: Final = 1024
_HASH_BYTES: Final = 16
_FREE: Final = bytes(_HASH_BYTES)
_OFFSET: Final = Struct(">q")
_TRIES: Final = range(_HASH_BYTES - 3)

_OBJECT_BYTES: Final = 80
"""Memory for a key and its offset, besides the key's bytes and its place in the dictionary."""


class OffsetMap:
    """Key → offset. ``latest_offset`` is the last offset that the map has taken in."""

    __slots__ = (
        "_key_bytes",
        "_known",
        "_max_bytes",
        "_slots",
        "_table",
        "_table_entries",
        "latest_offset",
        "max_entries",
    )

    def __init__(self, max_bytes: int, load_factor: float, expected_keys: int) -> None:
        """A map of at most ``max_bytes``, smaller if few keys are expected."""
        most = max(max_bytes // ENTRY_BYTES, 2)
        # Twice as many slots as keys: most keys are then found at the first try.
        self._slots: int = min(most, max(LEAST_SLOTS, 2 * expected_keys))
        self._table: bytearray | None = None
        self._table_entries: int = 0
        self._max_bytes: int = max_bytes
        self._known: dict[bytes, int] = {}
        self._key_bytes: int = 0
        self.max_entries: int = min(max(int(self._slots * load_factor), 1), self._slots - 1)
        self.latest_offset: int = -1

    @property
    def entries(self) -> int:
        """The number of keys."""
        return len(self._known) if self._table is None else self._table_entries

    @property
    def is_full(self) -> bool:
        """Whether the map has no room for another key."""
        return self.entries >= self.max_entries

    @property
    def utilization(self) -> float:
        """The part of the table that the keys use, or would use, from 0 to 1."""
        return self.entries / self._slots

    @property
    def used_bytes(self) -> int:
        """Roughly the memory that the map takes."""
        table_bytes = 0 if self._table is None else len(self._table)
        objects_bytes = self._key_bytes + _OBJECT_BYTES * len(self._known)
        return table_bytes + getsizeof(self._known) + objects_bytes

    def put_all(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> int:
        """Set the offsets of keys until the map is full; returns how many were taken.

        None stands for a record without a key, and counts as taken.
        """
        if self._table is None and None not in keys:
            known = self._known
            before = len(known)
            if before + len(keys) <= self.max_entries:
                known.update(zip(keys, offsets, strict=True))  # type: ignore[arg-type]
                if offsets:
                    self.latest_offset = offsets[-1]
                if len(known) > before:
                    # It isn't known which keys were new, so each counts as the longest.
                    self._key_bytes += (len(known) - before) * max(map(len, keys))  # type: ignore[arg-type]
                    self._keep_small()
                return len(keys)
        return self._put_one_by_one(keys, offsets)

    def _put_one_by_one(self, keys: Sequence[bytes | None], offsets: Sequence[int]) -> int:
        for place, key in enumerate(keys):
            if key is None:
                continue
            if self.is_full:
                return place
            if self._table is None:
                if key not in self._known:
                    self._key_bytes += len(key)
                self._known[key] = offsets[place]
                self._keep_small()
            else:
                self._put_into_table(self._table, key, offsets[place])
            self.latest_offset = offsets[place]
        return len(keys)

    def get(self, key: bytes) -> int:
        """The last offset of ``key``, -1 if the map doesn't have it."""
        table = self._table
        if table is None:
            return self._known.get(key, -1)
        digest = md5(key, usedforsecurity=False).digest()
        at = self._find_slot(table, digest)
        if table[at : at + _HASH_BYTES] == digest:
            return int(_OFFSET.unpack_from(table, at + _HASH_BYTES)[0])
        return -1

    def get_all(self, keys: Sequence[bytes | None]) -> list[int]:
        """As ``get``, for many keys at once; -1 for None."""
        if self._table is None:
            return list(map(self._known.get, keys, repeat(-1)))  # type: ignore[arg-type]
        return [-1 if key is None else self.get(key) for key in keys]

    def last_offsets(self) -> "LastOffsets | None":
        """The offsets in the map; None if the keys have moved into the table."""
        return LastOffsets(self._known) if self._table is None else None

    def _keep_small(self) -> None:
        """Move the keys into the table if they take too much memory."""
        if self.used_bytes <= self._max_bytes:
            return
        known = self._known
        assert len(known) <= self.max_entries < self._slots  # so that a search ends at a free slot
        self._table = table = bytearray(self._slots * ENTRY_BYTES)
        while known:
            self._put_into_table(table, *known.popitem())
        self._known, self._key_bytes = {}, 0

    def _put_into_table(self, table: bytearray, key: bytes, offset: int) -> None:
        digest = md5(key, usedforsecurity=False).digest()
        at = self._find_slot(table, digest)
        if table[at : at + _HASH_BYTES] == _FREE:
            assert not self.is_full
            table[at : at + _HASH_BYTES] = digest
            self._table_entries += 1
        _OFFSET.pack_into(table, at + _HASH_BYTES, offset)

    def _find_slot(self, table: bytearray, digest: bytes) -> int:
        """The position of the slot with this hash, or of the free slot where it belongs."""
        slots = self._slots
        slot = 0
        for first in _TRIES:
            slot = int.from_bytes(digest[first : first + 4], "big") % slots
            at = slot * ENTRY_BYTES
            found = table[at : at + _HASH_BYTES]
            if found in (digest, _FREE):
                return at
        while True:  # a free slot always exists
            slot = (slot + 1) % slots
            at = slot * ENTRY_BYTES
            found = table[at : at + _HASH_BYTES]
            if found in (digest, _FREE):
                return at


class LastOffsets:
    """The last offsets of all keys, for queries by range of the log."""

    __slots__ = ("_offsets",)

    def __init__(self, known: dict[bytes, int]) -> None:
        self._offsets = array("q", sorted(known.values()))

    def within(self, first_offset: int, last_offset: int) -> Sequence[int]:
        """The last offsets within a range, ascending."""
        start = bisect_left(self._offsets, first_offset)
        end = bisect_left(self._offsets, last_offset + 1, start)
        return self._offsets[start:end]
