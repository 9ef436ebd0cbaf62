"""Reading a whole segment after a crash: how much of it is sound, and what its indexes must hold.

Rules:

- A batch is sound if it is complete, has this format and the right checksum, and its offsets follow
  those of the batch before. The first batch that isn't sound ends the segment.
- A batch's length field is never trusted: nothing is read beyond the file, and a batch larger than
  a chunk is read and checksummed in chunks.
- The work per batch limits the speed of recovery, so the loop does as little as possible: it builds
  indexes in memory and notes batches with a producer id by position, dropping most of them later.

Source: LogSegment.recover of Kafka.
"""

from array import array
from collections.abc import Callable
from struct import Struct

from kwire.log.producer_entry import BATCHES_KEPT
from kwire.log.producer_state import NO_LIMIT
from kwire.record.batch import (
    CONTROL_MASK,
    HEADER_BYTES,
    LOG_OVERHEAD_BYTES,
    MAGIC,
    MIN_BATCH_LENGTH,
    NO_PRODUCER_ID,
    TRANSACTIONAL_MASK,
)
from kwire.record.checksum import crc32c

CHUNK_BYTES = 1024 * 1024
MAX_RELATIVE_OFFSET = (1 << 31) - 1

_FIELDS = Struct(">qiibIhi8xqq")
"""base offset, length, leader epoch, magic, crc, attributes, last offset delta, (base timestamp),
max timestamp, producer id."""

_CRC_FROM = 21
_REPLAYED_ALL = TRANSACTIONAL_MASK | CONTROL_MASK
_OFFSET_ENTRY = Struct(">ii")
_TIME_ENTRY = Struct(">qi")


class SegmentScan:
    """The result of a scan. ``scan`` does the reading, through ``read(position, size)``.

    ``size_bytes`` is the size of the sound part and ``end_offset`` the offset after it. ``problem``
    says what is wrong after the sound part; it is "" if the sound part is the whole file.
    ``offset_entries`` and ``time_entries`` are the contents of the indexes. ``epochs`` are the
    leader epochs with their start offsets. ``replayed`` are the positions of the batches that
    rebuild the state of at most ``producers_kept`` producers.
    """

    def __init__(
        self,
        read: Callable[[int, int], bytes],
        file_bytes: int,
        base_offset: int,
        index_interval_bytes: int,
        producers_kept: int = NO_LIMIT,
    ) -> None:
        self.size_bytes = 0
        self.end_offset = base_offset
        self.problem = ""
        self.offset_entries = bytearray()
        self.time_entries = bytearray()
        self.first_timestamp: int | None = None
        self.max_timestamp = -1
        self.max_timestamp_offset = -1
        self.bytes_since_index = 0
        self.epochs: list[tuple[int, int]] = []
        self._read = read
        self._file_bytes = file_bytes
        self._base_offset = base_offset
        self._interval_bytes = index_interval_bytes
        self._indexed_timestamp = -1
        self._latest_epoch = -1
        self._all = array("q")
        self._producers_kept = producers_kept
        self._last: dict[int, tuple[int, ...]] = {}

    @property
    def replayed(self) -> "array[int]":
        """Positions of the batches that are enough to rebuild the producer state, ascending.

        They include all transactional batches, and only the last few others of each producer.
        """
        positions = self._all[:]
        for kept in self._last.values():
            positions.extend(kept)
        return array("q", sorted(positions))

    def scan(self, progress: Callable[[int], None]) -> None:
        """Read up to the first batch that isn't sound; calls ``progress`` with bytes read."""
        while not self.problem and self.size_bytes + HEADER_BYTES <= self._file_bytes:
            before = self.size_bytes
            chunk = self._read(before, min(CHUNK_BYTES, self._file_bytes - before))
            if len(chunk) < HEADER_BYTES:
                break
            self._scan_chunk(chunk)
            if self.size_bytes == before and not self.problem:
                self._scan_large(chunk)
            progress(self.size_bytes - before)
        if not self.problem and self.size_bytes < self._file_bytes:
            self.problem = "an incomplete batch"

    def _scan_chunk(self, chunk: bytes) -> None:
        """Scan the batches that lie wholly within ``chunk``."""
        view = memoryview(chunk)
        # Local names are found faster than the module's.
        unpack, checksum, no_producer = _FIELDS.unpack_from, crc32c, NO_PRODUCER_ID
        have, start = len(chunk), self.size_bytes
        end_offset, limit = self.end_offset, self._base_offset + MAX_RELATIVE_OFFSET
        max_timestamp, since, interval = (
            self.max_timestamp,
            self.bytes_since_index,
            self._interval_bytes,
        )
        epoch_before = self._latest_epoch
        at, last_start = 0, have - HEADER_BYTES
        while at <= last_start:
            base, length, epoch, magic, crc, attributes, delta, timestamp, producer = unpack(
                chunk, at
            )
            after = at + length + 12
            if after > have and length > 0:
                break
            last = base + delta
            if (
                magic != MAGIC
                or length < MIN_BATCH_LENGTH
                or not end_offset <= base <= last <= limit
                or checksum(view[at + 21 : after]) != crc
            ):
                self.problem = self._why(magic, length, base, last, end_offset)
                break
            if timestamp > max_timestamp:
                self.max_timestamp, self.max_timestamp_offset = timestamp, last
                max_timestamp = timestamp
            if since > interval:
                self._index(last, start + at)
                since = 0
            if producer != no_producer:
                self._note_producer(producer, attributes, start + at)
            if epoch > epoch_before:
                self._note_epoch(epoch, base)
                epoch_before = epoch
            since += after - at
            end_offset = last + 1
            at = after
        if self.first_timestamp is None and at:
            self.first_timestamp = unpack(chunk, 0)[7]
        # What lies after the last whole batch is read again with the next chunk, or cut off.
        assert at <= have, (at, have)
        self.bytes_since_index, self.end_offset = since, end_offset
        self.size_bytes = start + at

    def _scan_large(self, chunk: bytes) -> None:
        """Scan one batch that is larger than ``chunk``, which holds its start."""
        base, length, epoch, magic, crc, attributes, delta, timestamp, producer = (
            _FIELDS.unpack_from(chunk)
        )
        start, size_bytes = self.size_bytes, LOG_OVERHEAD_BYTES + length
        last = base + delta
        limit = self._base_offset + MAX_RELATIVE_OFFSET
        if start + size_bytes > self._file_bytes:
            self.problem = "an incomplete batch"
            return
        sound = magic == MAGIC and self.end_offset <= base <= last <= limit
        if not sound or self._sum(chunk, size_bytes) != crc:
            self.problem = self._why(magic, length, base, last, self.end_offset)
            return
        if timestamp > self.max_timestamp:
            self.max_timestamp, self.max_timestamp_offset = timestamp, last
        if self.first_timestamp is None:
            self.first_timestamp = timestamp
        if self.bytes_since_index > self._interval_bytes:
            self._index(last, start)
            self.bytes_since_index = 0
        if producer != NO_PRODUCER_ID:
            self._note_producer(producer, attributes, start)
        if epoch > self._latest_epoch:
            self._note_epoch(epoch, base)
        self.bytes_since_index += size_bytes
        self.end_offset = last + 1
        self.size_bytes = start + size_bytes

    def _sum(self, chunk: bytes, size_bytes: int) -> int:
        """The checksum of a batch that starts with ``chunk``; -1 if the file ends too early."""
        total = crc32c(memoryview(chunk)[_CRC_FROM:])
        done = len(chunk)
        while done < size_bytes:
            chunk = self._read(self.size_bytes + done, min(CHUNK_BYTES, size_bytes - done))
            if not chunk:
                return -1
            total = crc32c(chunk, total)
            done += len(chunk)
        return total

    def _index(self, last_offset: int, position: int) -> None:
        # As in ``LogSegment``: entries are relative to the base offset, without a sign.
        assert last_offset >= self._base_offset, (last_offset, self._base_offset)
        self.offset_entries += _OFFSET_ENTRY.pack(last_offset - self._base_offset, position)
        if self.max_timestamp > self._indexed_timestamp:
            self._indexed_timestamp = self.max_timestamp
            relative = self.max_timestamp_offset - self._base_offset
            self.time_entries += _TIME_ENTRY.pack(self.max_timestamp, relative)

    def _note_producer(self, producer_id: int, attributes: int, position: int) -> None:
        if attributes & _REPLAYED_ALL:
            self._all.append(position)
        else:
            earlier = self._last.get(producer_id, ())
            self._last[producer_id] = (*earlier[1 - BATCHES_KEPT :], position)
            if len(self._last) >= 2 * self._producers_kept:
                self._forget_idle()

    def _forget_idle(self) -> None:
        """Keep only the producers that wrote last: the replay would forget the others anyway."""
        places = sorted(kept[-1] for kept in self._last.values())
        first = places[-self._producers_kept]
        self._last = {one: kept for one, kept in self._last.items() if kept[-1] >= first}

    def _note_epoch(self, epoch: int, base_offset: int) -> None:
        assert epoch > self._latest_epoch, (epoch, self._latest_epoch)  # epochs only go up
        self.epochs.append((epoch, base_offset))
        self._latest_epoch = epoch

    def _why(self, magic: int, length: int, base: int, last: int, end_offset: int) -> str:
        """Say what is wrong with a batch."""
        if magic != MAGIC or length < MIN_BATCH_LENGTH:
            return f"no record batch (magic {magic}, length {length})"
        if end_offset <= base <= last:
            return f"a batch at offset {base} whose checksum or offset is wrong"
        return f"a batch from offset {base} to {last}, which does not follow {end_offset - 1}"
