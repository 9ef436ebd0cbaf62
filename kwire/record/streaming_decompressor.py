"""Decompressing the records of a batch piece by piece, with only one piece in memory.

Rules:

- ``Limits`` bound the number of records of a batch and the bytes to which they may decompress. A
  batch beyond a limit raises TooLarge (MESSAGE_TOO_LARGE) before more of it is decompressed.
- An uncompressed batch can't hold more than the request that brought it. Only the number of its
  headers is limited, because a header takes as little as two bytes.
- A record of a compressed batch has at most ``max_record_bytes``, else RecordTooLarge
  (INVALID_RECORD), as in Kafka.
- ``between`` is called after every piece. It may raise to stop the work, when the result isn't
  needed any more.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from kwire.errors import ErrorCode
from kwire.record.batch import InvalidRecords, RecordBatch, TooLarge
from kwire.record.compression import DEFAULT_MAX_BYTES, Compression, decompressed
from kwire.record.varint import read_varint

MAX_VARINT_BYTES = 10

BetweenPieces: TypeAlias = Callable[[], None]


NO_RECORD_LIMIT = 0x7FFF_FFF7
"""The default of ``max.decompressed.message.bytes``: more than any record can have."""


class Limits(NamedTuple):
    """What a batch may hold; ``max_bytes`` and ``max_records`` are for compressed batches.

    Batches that are rewritten take longer: a compressed batch that gets another codec may also have
    at most ``max_recompressed_bytes``, and one that gets other offsets ``max_renumbered`` records.
    """

    max_bytes: int = DEFAULT_MAX_BYTES
    max_records: int = 0x7FFF_FFFF
    max_headers: int = 1_000_000
    max_recompressed_bytes: int = 0x7FFF_FFFF_FFFF_FFFF
    max_renumbered: int = 0x7FFF_FFFF
    max_record_bytes: int = NO_RECORD_LIMIT


NO_LIMITS = Limits()


class RecordTooLarge(InvalidRecords):
    """A record of a compressed batch that has more than ``max_record_bytes``."""


def do_nothing() -> None:
    """Do nothing between two pieces: the default, for results that are always needed."""


class StreamingDecompressor:
    """The decompressed records of a batch; ``position`` in ``buffer`` is the next byte to read.

    Raises TooLarge if the batch's header already exceeds the limits.
    """

    __slots__ = (
        "_between",
        "_bytes_before",
        "_headers_count",
        "_limits",
        "_pieces",
        "buffer",
        "max_record_bytes",
        "position",
    )

    def __init__(
        self,
        batch: RecordBatch,
        limits: Limits = NO_LIMITS,
        between: BetweenPieces = do_nothing,
    ) -> None:
        check_count(batch, limits)
        is_compressed = batch.compression != Compression.NONE
        max_bytes = limits.max_bytes if is_compressed else batch.size_bytes
        self._pieces = decompressed(batch.compression, batch.payload, max_bytes)
        self._between = between
        self._bytes_before = 0  # in the pieces before the buffer
        self._headers_count = 0
        self._limits = limits
        self.max_record_bytes = limits.max_record_bytes if is_compressed else NO_RECORD_LIMIT
        self.buffer = b""
        self.position = 0

    @property
    def done_bytes(self) -> int:
        """Bytes between the start of the first record and ``position``."""
        return self._bytes_before + self.position

    def is_at_end(self) -> bool:
        """Whether no byte is left."""
        while self.position >= len(self.buffer):
            if not self._next_piece():
                return True
        return False

    def varint(self) -> int:
        """Read the varint at ``position``, which may continue in the next piece."""
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
        """Move ``position`` forward, through as many pieces as necessary."""
        while size_bytes > len(self.buffer) - self.position:
            size_bytes -= len(self.buffer) - self.position
            self.position = len(self.buffer)
            if self.is_at_end():
                raise _cut_short()
        self.position += size_bytes

    def count_headers(self, count: int, room_bytes: int) -> None:
        """Count the headers of a record before they are read; ``room_bytes`` of it are unread.

        Raises InvalidRecords if the headers can't fit into these bytes, TooLarge if the batch has
        too many headers.
        """
        # A header takes two bytes at least: an empty key and a null value.
        if not 0 < count <= room_bytes // 2:
            raise invalid(f"{count} headers do not fit into the record")
        self._headers_count += count
        if self._headers_count > self._limits.max_headers:
            raise TooLarge(f"a batch of more than {self._limits.max_headers} headers")

    def next_record(self) -> int:
        """Bring the whole next record into the buffer, and move ``position`` behind its length.

        Returns the position after the record.
        """
        try:
            length, position = read_varint(self.buffer, self.position)
        except IndexError:
            length, position = self.varint(), self.position
        if not 0 <= length <= self.max_record_bytes:
            raise unfit(length, self.max_record_bytes)
        self.position = position
        if position + length > len(self.buffer):
            self._gather(length)
        return self.position + length

    def _gather(self, size_bytes: int) -> None:
        """Bring ``size_bytes`` bytes from ``position`` on into the buffer."""
        gathered = [self.buffer[self.position :]]
        have = len(gathered[0])
        done_bytes = self.done_bytes
        while have < size_bytes:
            if not self._next_piece():
                raise invalid(f"a record of {size_bytes} bytes does not fit")
            gathered.append(self.buffer)
            have += len(self.buffer)
        self.buffer, self.position = b"".join(gathered), 0
        self._bytes_before = done_bytes

    def _next_piece(self) -> bool:
        for piece in self._pieces:
            self._between()
            if piece:
                self._bytes_before += len(self.buffer)
                self.buffer, self.position = piece, 0
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
    """The error for records that don't match the batch's header."""
    return InvalidRecords(ErrorCode.INVALID_RECORD, message)


def unfit(length: int, max_record_bytes: int) -> InvalidRecords:
    """The error for a record whose length is negative or above ``max_record_bytes``."""
    if length < 0:
        return invalid(f"a record of {length} bytes does not fit")
    return RecordTooLarge(
        ErrorCode.INVALID_RECORD,
        f"a record of {length} bytes, max.decompressed.message.bytes allows {max_record_bytes}",
    )


def _cut_short() -> InvalidRecords:
    return invalid("the records are cut short")
