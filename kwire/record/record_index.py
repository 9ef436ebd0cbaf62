"""An index of a batch's records: where each begins and ends, found without building the records.

Compaction uses this module: it reads every record and copies the bytes of most. The records'
headers aren't read.

Rules:

- The speed of this code limits the speed of a clean. The positions, keys and deltas of the records
  are therefore parallel lists, and uncompressed records aren't copied.
- Nearly all varints have one or two bytes and aren't negative. The loop decodes these inline, and
  ``read_varint`` decodes the others. Tests compare the results with ``kwire.record.records``.
"""

from collections.abc import Sequence
from operator import lt

from kwire.record.batch import HEADER_BYTES, RecordBatch
from kwire.record.compression import Compression, decompress
from kwire.record.streaming_decompressor import (
    NO_LIMITS,
    NO_RECORD_LIMIT,
    Limits,
    check_count,
    invalid,
    unfit,
)
from kwire.record.varint import append_varint, read_varint

_NULL_LENGTH = 1
"""The byte that encodes the length -1, which stands for null."""


class RecordIndex:
    """The records of a batch: they follow each other in ``buffer`` from ``start`` on.

    ``ends`` has the position after each record. ``offset_deltas`` are relative to the batch's base
    offset. ``deletes`` are the indexes of records without a value. ``is_ascending`` says that the
    offsets ascend and lie within the batch's offsets. Raises InvalidRecords if the batch doesn't
    hold as many records as its header says, TooLarge beyond the limits. The object holds the whole
    batch, and about 100 bytes more for each record.
    """

    __slots__ = ("buffer", "deletes", "ends", "is_ascending", "keys", "offset_deltas", "start")

    def __init__(self, batch: RecordBatch, limits: Limits = NO_LIMITS) -> None:
        check_count(batch, limits)
        buffer = batch.buffer
        if batch.compression == Compression.NONE and isinstance(buffer, bytes):
            self.buffer: bytes = buffer
            self.start: int = batch.position + HEADER_BYTES
            end = batch.position + batch.size_bytes
        else:
            self.buffer = bytes(decompress(batch.compression, batch.payload, limits.max_bytes))
            self.start, end = 0, len(self.buffer)
        self.ends: list[int] = []
        self.keys: list[bytes | None] = []
        self.offset_deltas: list[int] = []
        self.deletes: list[int] = []
        try:
            position = self._index_records(self.start, end, batch.records_count)
        except IndexError as error:
            raise invalid("the records are cut short") from error
        if position != end:
            raise invalid(f"{end - position} bytes follow the last record")
        if batch.compression != Compression.NONE and limits.max_record_bytes != NO_RECORD_LIMIT:
            self._check_lengths(limits.max_record_bytes)
        self.is_ascending: bool = _ascend(self.offset_deltas, batch.last_offset_delta)

    def _index_records(self, position: int, end: int, count: int) -> int:
        """Find every record; returns the position after the last one."""
        buffer = self.buffer
        ends, keys, deltas = self.ends, self.keys, self.offset_deltas
        # Varints hold twice a value that isn't negative; - 64 removes the first byte's high bit.
        for place in range(count):
            length = buffer[position]
            if length < 0x80:
                position += 1
                after = position + (length >> 1)
            elif (high := buffer[position + 1]) < 0x80:
                position += 2
                after = position + (high << 6) + (length >> 1) - 64
            else:
                length, position = read_varint(buffer, position)
                after = position + length
                length = 0
            # A byte of attributes; the timestamp delta ends with a byte below 0x80.
            position += 2
            while buffer[position - 1] >= 0x80:
                position += 1
            delta = buffer[position]
            if not delta & 0x81:
                delta >>= 1
                position += 1
            elif not delta & 1 and (high := buffer[position + 1]) < 0x80:
                delta = (delta >> 1) + (high << 6) - 64
                position += 2
            else:
                delta, position = read_varint(buffer, position)
            key_length = buffer[position]
            if not key_length & 0x81:
                key_at = position + 1
                position = key_at + (key_length >> 1)
                keys.append(buffer[key_at:position])
            else:
                position = self._other_key(position)
            if not position < after <= end or length & 1:
                raise invalid("a record does not fit")
            if buffer[position] == _NULL_LENGTH:
                self.deletes.append(place)
            deltas.append(delta)
            ends.append(after)
            position = after
        return position

    def _check_lengths(self, most: int) -> None:
        """Raise RecordTooLarge for a record of more than ``most`` bytes."""
        for begin in (self.start, *self.ends[:-1]):
            length, _ = read_varint(self.buffer, begin)
            if length > most:
                raise unfit(length, most)

    def _other_key(self, position: int) -> int:
        """Read a key that is long or null; returns the position after it."""
        length, position = read_varint(self.buffer, position)
        if length < 0:
            self.keys.append(None)
            return position
        self.keys.append(self.buffer[position : position + length])
        return position + length

    def __len__(self) -> int:
        return len(self.ends)

    def offsets(self, base_offset: int) -> Sequence[int]:
        """The offsets of the records in a batch at ``base_offset``."""
        deltas = self.offset_deltas
        if self.is_ascending and deltas and deltas[-1] == len(deltas) - 1:
            return range(base_offset, base_offset + len(deltas))
        return [base_offset + delta for delta in deltas]

    def timestamp_delta(self, place: int) -> int:
        """A record's timestamp relative to the batch's base timestamp, in ms."""
        position = self._attributes_position(place)
        return read_varint(self.buffer, position + 1)[0]

    def copied(self, places: Sequence[int]) -> bytes:
        """The bytes of the records at these indexes, which must ascend."""
        buffer, ends = self.buffer, self.ends
        runs = []
        start = end = 0
        for place in places:
            record_start = ends[place - 1] if place else self.start
            if record_start != end:
                runs.append(buffer[start:end])
                start = record_start
            end = ends[place]
        runs.append(buffer[start:end])
        return b"".join(runs)

    def shifted(self, places: Sequence[int], shift_ms: int) -> bytes:
        """As ``copied``, but with timestamp deltas increased by ``shift_ms``."""
        buffer = self.buffer
        out = bytearray()
        for place in places:
            position = self._attributes_position(place)
            timestamp_delta, rest_at = read_varint(buffer, position + 1)
            delta = bytearray()
            append_varint(delta, timestamp_delta + shift_ms)
            rest = buffer[rest_at : self.ends[place]]
            append_varint(out, 1 + len(delta) + len(rest))
            out.append(buffer[position])
            out += delta
            out += rest
        return bytes(out)

    def _attributes_position(self, place: int) -> int:
        """The position of a record's attributes, which follow its length."""
        position = self.ends[place - 1] if place else self.start
        while self.buffer[position] & 0x80:
            position += 1
        return position + 1


def _ascend(offset_deltas: list[int], last_offset_delta: int) -> bool:
    """Whether offsets ascend and lie within their batch."""
    count = len(offset_deltas)
    if count and not 0 <= offset_deltas[0] <= offset_deltas[-1] <= last_offset_delta:
        return False
    if offset_deltas == list(range(count)):
        return True
    return all(map(lt, offset_deltas, offset_deltas[1:]))
