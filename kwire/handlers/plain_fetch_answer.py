"""The response to a common fetch while it is built: bytes, and slices of files between them.

Format (versions 12 to 18): size int32, correlation id int32, no tags, throttle time int32, error
code int16, session id int32, topics. Each partition: index int32, error code int16, high watermark
int64, last stable offset int64, log start offset int64, aborted transactions (null unless the fetch
is read_committed), preferred replica int32, records, no tags.
"""

from struct import Struct

from kwire.broker.partition import Partition
from kwire.protocol.file_slice import FileSlice
from kwire.protocol.wire import append_unsigned_varint

_BEGIN = Struct(">iiBihi")
_TOLD = Struct(">ihqqq")
_ABORTED = Struct(">qqB")
_NO_REPLICA = b"\xff\xff\xff\xff"
_NO_TAGS = b"\0"
_NULL = 0
_QUIET = b"\0" + _NO_REPLICA + b"\1\0"
"""Null aborted transactions, no preferred replica, no records, no tags."""

_QUIET_COMMITTED = b"\1" + _NO_REPLICA + b"\1\0"
"""The same with an empty array of aborted transactions instead of null."""


class FetchAnswer:
    """The partitions of an answer, in the order of the request, with ``size_bytes`` of records.

    The request waits for ``min_bytes``, but never for more than ``max_bytes``.
    """

    __slots__ = (
        "_left_bytes",
        "_parts",
        "_pieces",
        "_read",
        "min_bytes",
        "read_committed",
        "size_bytes",
    )

    def __init__(self, min_bytes: int, max_bytes: int, *, read_committed: bool) -> None:
        self.size_bytes = 0
        self.min_bytes = min(min_bytes, max_bytes)
        self.read_committed = read_committed
        self._left_bytes = max_bytes
        self._parts: list[bytes | FileSlice] = [b""]
        self._pieces: list[bytes] = []
        self._read: list[tuple[Partition, int]] = []  # each with the size of its records

    def add_bytes(self, piece: bytes) -> None:
        """Add bytes: quiet partitions, and the fields between topics."""
        self._pieces.append(piece)

    def add(self, partition: Partition, offset: int, max_bytes: int) -> None:
        """Add a partition with its records. KafkaError, ColdPages."""
        read_committed = self.read_committed
        high_watermark = partition.high_watermark
        last_stable_offset = high_watermark
        log = partition.log
        if log.producers.open_transactions or log.producers.ended:
            last_stable_offset = partition.last_stable_offset
        end_offset = last_stable_offset if read_committed else high_watermark
        records: FileSlice | None = None
        if offset != end_offset or offset < log.log_start_offset:
            with log.hurry:
                records = log.read(
                    offset,
                    min(self._left_bytes, max_bytes),
                    end_offset=end_offset,
                    min_one_batch=self.size_bytes == 0,
                )
        start = _TOLD.pack(
            partition.index, 0, high_watermark, last_stable_offset, log.log_start_offset
        )
        if records is None:
            self._pieces.append(start)
            self._pieces.append(_QUIET_COMMITTED if read_committed else _QUIET)
            return
        told = bytearray(start)
        if read_committed:
            self._add_aborted(told, partition, offset, records)
        else:
            told.append(_NULL)
        told += _NO_REPLICA
        append_unsigned_varint(told, records.size_bytes + 1)
        self._read.append((partition, records.size_bytes))
        self._add_records(told, records)

    def _add_aborted(
        self, told: bytearray, partition: Partition, offset: int, records: FileSlice
    ) -> None:
        """Add the aborted transactions whose records a read_committed consumer leaves out."""
        log = partition.log
        with log.hurry:
            found = log.aborted_transactions(offset, partition.last_stable_offset, records)
        append_unsigned_varint(told, len(found) + 1)
        for entry in found:
            told += _ABORTED.pack(entry.producer_id, entry.first_offset, 0)

    def _add_records(self, told: bytearray, records: FileSlice) -> None:
        self._pieces.append(bytes(told))
        self._parts.append(b"".join(self._pieces))
        self._parts.append(records)
        self._pieces = [_NO_TAGS]
        self.size_bytes += records.size_bytes
        self._left_bytes = max(0, self._left_bytes - records.size_bytes)

    def response(self, correlation_id: int) -> list[bytes | FileSlice]:
        """The whole response in parts, its size first."""
        parts = self._parts
        for partition, size_bytes in self._read:
            partition.bytes_out += size_bytes
        self._pieces.append(_NO_TAGS)
        parts.append(b"".join(self._pieces))
        size = _BEGIN.size - 4
        for part in parts:
            size += part.size_bytes if isinstance(part, FileSlice) else len(part)
        parts[0] = _BEGIN.pack(size, correlation_id, 0, 0, 0, 0)
        return parts
