"""The last offset of each key, in a piece of memory of a fixed size.

Format: a table of slots of 24 bytes, ``MD5 of the key | offset int64``; a slot of zeros is free.
A key's place is tried at the numbers that its hash holds, then one slot after the other.

Rules:

- The memory never grows, whatever comes: at ``load_factor`` the map is full, and the clean goes
  only as far as the map knows the keys. One slot at least stays free.
- Two keys with the same MD5 would be taken for one, as in Kafka.

Source: SkimpyOffsetMap of Kafka.
"""

from hashlib import md5
from struct import Struct

ENTRY_BYTES = 24
LEAST_SLOTS = 1024
_HASH_BYTES = 16
_FREE = bytes(_HASH_BYTES)
_OFFSET = Struct(">q")
_TRIES = range(_HASH_BYTES - 3)


class OffsetMap:
    """Key → offset. ``latest_offset`` is how far the map knows the log."""

    __slots__ = ("_slots", "_table", "entries", "latest_offset", "max_entries")

    def __init__(self, max_bytes: int, load_factor: float, expected_keys: int) -> None:
        """A map of at most ``max_bytes``, smaller where it is known that fewer keys will come."""
        most = max(max_bytes // ENTRY_BYTES, 2)
        # Twice as many slots as keys: then most keys are found at the first try.
        self._slots = min(most, max(LEAST_SLOTS, 2 * expected_keys))
        self._table = bytearray(self._slots * ENTRY_BYTES)
        self.max_entries = min(max(int(self._slots * load_factor), 1), self._slots - 1)
        self.entries = 0
        self.latest_offset = -1

    @property
    def is_full(self) -> bool:
        """Whether no other key fits in."""
        return self.entries >= self.max_entries

    @property
    def utilization(self) -> float:
        """How much of the memory is in use, from 0 to 1."""
        return self.entries / self._slots

    def put(self, key: bytes, offset: int) -> None:
        """Note that ``key`` was written at ``offset``; the map must not be full."""
        digest = md5(key, usedforsecurity=False).digest()
        at = self._find(digest)
        table = self._table
        if table[at : at + _HASH_BYTES] == _FREE:
            assert not self.is_full
            table[at : at + _HASH_BYTES] = digest
            self.entries += 1
        _OFFSET.pack_into(table, at + _HASH_BYTES, offset)
        self.latest_offset = offset

    def get(self, key: bytes) -> int:
        """The last offset of ``key``, -1 for one that the map doesn't know."""
        digest = md5(key, usedforsecurity=False).digest()
        at = self._find(digest)
        table = self._table
        if table[at : at + _HASH_BYTES] == digest:
            return int(_OFFSET.unpack_from(table, at + _HASH_BYTES)[0])
        return -1

    def _find(self, digest: bytes) -> int:
        """The position of the slot that has this hash, or of the free one where it belongs."""
        table, slots = self._table, self._slots
        for first in _TRIES:
            slot = int.from_bytes(digest[first : first + 4], "big") % slots
            at = slot * ENTRY_BYTES
            found = table[at : at + _HASH_BYTES]
            if found in (digest, _FREE):
                return at
        while True:  # there is a free slot, always
            slot = (slot + 1) % slots
            at = slot * ENTRY_BYTES
            found = table[at : at + _HASH_BYTES]
            if found in (digest, _FREE):
                return at
