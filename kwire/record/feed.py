"""The records of a batch, decompressed a stretch at a time: never more is held than a stretch.

Rules:

- ``Limits`` bound how many records a batch may have and how many bytes they may decompress to.
  TooLarge (MESSAGE_TOO_LARGE) is raised before anything beyond is made.
- What isn't compressed was paid for with as many bytes of a request: only the number of headers,
  which take two bytes each, is limited there.
- ``between`` is called after every stretch; it may raise, when nobody wants the result any more.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from kwire.errors import ErrorCode
from kwire.record.batch import InvalidRecords, RecordBatch, TooLarge
from kwire.record.compression import DEFAULT_MAX_BYTES, Compression, decompressed
from kwire.record.varint import read_varint

MAX_VARINT_BYTES = 10

Between: TypeAlias = Callable[[], None]


class Limits(NamedTuple):
    """What a compressed batch may hold where it is opened; ``max_headers`` is for any batch."""

    max_bytes: int = DEFAULT_MAX_BYTES
    max_records: int = 0x7FFF_FFFF
    max_headers: int = 1_000_000


NO_LIMITS = Limits()


def nothing_between() -> None:
    """What there is to do between two stretches where the result is wanted in any case."""


class RecordFeed:
    """The decompressed records of a batch; ``position`` of ``buffer`` comes next.

    Raises TooLarge for a batch whose header alone says more than the limits allow.
    """

    __slots__ = ("_before", "_between", "_headers", "_limits", "_stretches", "buffer", "position")

    def __init__(
        self,
        batch: RecordBatch,
        limits: Limits = NO_LIMITS,
        between: Between = nothing_between,
    ) -> None:
        check_count(batch, limits)
        is_compressed = batch.compression != Compression.NONE
        max_bytes = limits.max_bytes if is_compressed else batch.size_bytes
        self._stretches = decompressed(batch.compression, batch.payload, max_bytes)
        self._between = between
        self._before = 0
        self._headers = 0
        self._limits = limits
        self.buffer = b""
        self.position = 0

    @property
    def done_bytes(self) -> int:
        """How many bytes lie before the position, from the first record on."""
        return self._before + self.position

    def is_at_end(self) -> bool:
        """Whether nothing is left."""
        while self.position >= len(self.buffer):
            if not self._next_stretch():
                return True
        return False

    def varint(self) -> int:
        """The number at the position, which may go on in the next stretch."""
        encoded = bytearray()
        while len(encoded) <= MAX_VARINT_BYTES:
            if self.is_at_end():
                raise _cut_short()
            byte = self.buffer[self.position]
            self.position += 1
            encoded.append(byte)
            if byte < 0x80:
                break
        return read_varint(encoded, 0)[0]

    def skip(self, size_bytes: int) -> None:
        """Go on behind so many bytes, of which only the stretch in hand is held."""
        while size_bytes > len(self.buffer) - self.position:
            size_bytes -= len(self.buffer) - self.position
            self.position = len(self.buffer)
            if self.is_at_end():
                raise _cut_short()
        self.position += size_bytes

    def count_headers(self, count: int, room_bytes: int) -> None:
        """Count the headers of a record, which have so much room, before they are looked at.

        Raises InvalidRecords where they don't fit, TooLarge for too many.
        """
        # A header takes two bytes at least: an empty key and a null value.
        if not 0 < count <= room_bytes // 2:
            raise invalid(f"{count} headers do not fit into the record")
        self._headers += count
        if self._headers > self._limits.max_headers:
            raise TooLarge(f"a batch of more than {self._limits.max_headers} headers")

    def next_record(self) -> int:
        """Bring the next record into the buffer as a whole, ``position`` behind its length.

        The position after it is given.
        """
        try:
            length, position = read_varint(self.buffer, self.position)
        except IndexError:
            length, position = self.varint(), self.position
        if length < 0:
            raise invalid(f"a record of {length} bytes does not fit")
        self.position = position
        if position + length > len(self.buffer):
            self._gather(length)
        return self.position + length

    def _gather(self, size_bytes: int) -> None:
        """Bring so many bytes into the buffer."""
        gathered = [self.buffer[self.position :]]
        have = len(gathered[0])
        before = self.done_bytes
        while have < size_bytes:
            if not self._next_stretch():
                raise invalid(f"a record of {size_bytes} bytes does not fit")
            gathered.append(self.buffer)
            have += len(self.buffer)
        self.buffer, self.position = b"".join(gathered), 0
        self._before = before

    def _next_stretch(self) -> bool:
        for stretch in self._stretches:
            self._between()
            if stretch:
                self._before += len(self.buffer)
                self.buffer, self.position = stretch, 0
                return True
        return False


def check_count(batch: RecordBatch, limits: Limits) -> None:
    """Raise InvalidRecords for a negative number of records, TooLarge for too many."""
    count = batch.records_count
    if count < 0:
        raise invalid(f"a batch with {count} records")
    if count > limits.max_records and batch.compression != Compression.NONE:
        raise TooLarge(f"a compressed batch of more than {limits.max_records} records")


def invalid(message: str) -> InvalidRecords:
    """What is raised for records that aren't what the header says."""
    return InvalidRecords(ErrorCode.INVALID_RECORD, message)


def _cut_short() -> InvalidRecords:
    return invalid("the records are cut short")
