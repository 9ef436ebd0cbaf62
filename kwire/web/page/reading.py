"""Reads records of a partition for the page: some from an offset on, or records with a text.

Rules:

- The bytes come from the handler of Fetch, at most ``READ_BYTES`` at a time. A batch that is larger
  than ``MAX_BATCH_BYTES`` is not read; the page says so.
- Batches are opened in the thread of the HTTP port, whose processor time is limited
  (``kwire.web.governor``), one page at a time. No batch is opened beyond ``LIMITS``.
- A search ends after ``SEARCH_BYTES`` or ``SEARCH_S``. The page then offers to continue from there.
"""

import os
import time
from typing import Any, NamedTuple

import trio

from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.file_slice import FileSlice
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.record.batch import LOG_OVERHEAD_BYTES, InvalidRecords, RecordBatch
from kwire.record.compression import Compression
from kwire.record.control import ControlType
from kwire.record.records import Record, records
from kwire.record.streaming_decompressor import Limits
from kwire.web.cross_loop_calls import BrokerCalls, Observed
from kwire.web.page.asking import ask_broker

READ_BYTES = 1024 * 1024
MAX_BATCH_BYTES = 8 * 1024 * 1024
LIMITS = Limits(max_bytes=16 * 1024 * 1024, max_records=200_000, max_headers=200_000)
SEARCH_BYTES = 8 * 1024 * 1024
SEARCH_S = 2.0
MAX_HEADERS = 20
MAX_HEADER_BYTES = 512
MAX_NAME = 200
MAX_KEY_BYTES = 4096

_FETCH_VERSION = 12
_LIST_VERSION = 11


class Chunk(NamedTuple):
    """Bytes of batches; ``too_large_bytes`` is the size of a first batch that was not read."""

    content: bytes
    log_start: int
    high_watermark: int
    too_large_bytes: int


class Part(NamedTuple):
    """The beginning of a key, a value or a header's value, and its whole size."""

    content: bytes
    size_bytes: int


class Row(NamedTuple):
    """A record, with fields of its batch; ``problem`` is set for a batch that can't be opened."""

    offset: int
    timestamp: int = -1
    key: Part | None = None
    value: Part | None = None
    headers: tuple[tuple[str, Part | None], ...] = ()
    headers_left_out: int = 0
    codec: str = ""
    producer_id: int = -1
    marker: str = ""
    is_transactional: bool = False
    problem: str = ""


class Found(NamedTuple):
    """The records of a page; ``next_offset`` is the offset at which to continue.

    ``is_complete`` says whether the end of the partition or the wanted number was reached, and not
    a limit of the search.
    """

    rows: list[Row]
    first_offset: int
    next_offset: int
    log_start: int
    high_watermark: int
    read_bytes: int
    is_complete: bool


class Wanted(NamedTuple):
    """The wanted records: at most so many from ``offset`` on that contain ``text``.

    ``most_bytes`` is how much of a value is kept.
    """

    topic: str
    partition: int
    offset: int
    most: int
    text: str = ""
    most_bytes: int = 1024


class _TakesTooLong(InvalidRecords):
    """The time of the page is over before a batch is open."""


async def fetch(observed: Observed, topic: str, index: int, offset: int) -> Chunk:
    """Bytes of a partition from the batch with this offset on, in the broker's loop; KafkaError."""
    partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=READ_BYTES)
    request = FetchRequest(
        max_bytes=READ_BYTES, topics=[FetchTopic(topic=topic, partitions=[partition])]
    )
    answer: Any = await ask_broker(observed, request, _FETCH_VERSION)
    data = answer.responses[0].partitions[0]
    if data.error_code:
        raise KafkaError(ErrorCode(data.error_code), f"{topic}, partition {index}")
    content, too_large_bytes = b"", 0
    if isinstance(data.records, FileSlice):
        part = data.records
        if part.size_bytes > MAX_BATCH_BYTES:
            too_large_bytes = part.size_bytes
        else:
            reading = observed.broker.threads.cold_reads
            content = await reading.run(os.pread, part.fd, part.size_bytes, part.position)
    return Chunk(content, data.log_start_offset, data.high_watermark, too_large_bytes)


async def ends(observed: Observed, topic: str, index: int) -> tuple[int, int]:
    """The log start offset and the high watermark of a partition; KafkaError."""
    partition = observed.broker.partition(topic, index)
    return partition.log.log_start_offset, partition.high_watermark


async def offset_at(observed: Observed, topic: str, index: int, at_ms: int) -> int | None:
    """The offset of the first record that is not older than a time; None if all are older."""
    partition = ListOffsetsPartition(partition_index=index, timestamp=at_ms)
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[partition])]
    )
    answer: Any = await ask_broker(observed, request, _LIST_VERSION)
    found = answer.topics[0].partitions[0]
    if found.error_code:
        raise KafkaError(ErrorCode(found.error_code), f"{topic}, partition {index}")
    return None if found.offset < 0 else int(found.offset)


async def read(broker_calls: BrokerCalls, wanted: Wanted) -> Found:
    """The records of one page; KafkaError."""
    log_start, high_watermark = await broker_calls.run(ends, wanted.topic, wanted.partition)
    first = min(max(wanted.offset, log_start), high_watermark)
    reader = _Reader(wanted, first)
    read_bytes = 0
    while not reader.is_full and reader.offset < high_watermark and not reader.is_late:
        if read_bytes >= SEARCH_BYTES:
            reader.is_late = True
            break
        before = reader.offset
        chunk = await broker_calls.run(fetch, wanted.topic, wanted.partition, before)
        read_bytes += len(chunk.content)
        if chunk.too_large_bytes:
            reader.note(f"a batch of {chunk.too_large_bytes:,} bytes is more than the page opens")
            reader.is_late = True
        else:
            await reader.read_batches(chunk.content)
        if reader.offset == before:
            break
    return Found(
        reader.rows,
        first,
        reader.offset,
        log_start,
        high_watermark,
        read_bytes,
        not reader.is_late,
    )


class _Reader:
    """The records of a page so far; ``offset`` is the next one to read."""

    def __init__(self, wanted: Wanted, offset: int) -> None:
        self.rows: list[Row] = []
        self.offset = offset
        self.is_late = False
        self._wanted = wanted
        self._text = wanted.text.lower().encode()
        self._end_s = time.monotonic() + SEARCH_S

    @property
    def is_full(self) -> bool:
        """Whether the page has as many records as wanted."""
        return len(self.rows) >= self._wanted.most

    def note(self, problem: str) -> None:
        """Add a row that says why the records from ``offset`` on are missing."""
        self.rows.append(Row(self.offset, problem=f"{problem}; read it with a consumer"))

    async def read_batches(self, content: bytes) -> None:
        """Read the batches in these bytes, until the page is full or its time is over."""
        position = 0
        while position + LOG_OVERHEAD_BYTES <= len(content) and not self.is_full:
            size_bytes = int.from_bytes(content[position + 8 : position + 12]) + LOG_OVERHEAD_BYTES
            if position + size_bytes > len(content):
                break  # the fetch has cut the last batch
            if time.monotonic() > self._end_s:
                self.is_late = True
                break
            batch = RecordBatch(content, position)
            try:
                self._take_batch(batch)
            except InvalidRecords as error:
                self.note(error.message or "a damaged batch")
                self.offset = max(self.offset, batch.next_offset)
            position += size_bytes
            await trio.lowlevel.checkpoint()  # lets the governor count, and other tasks run

    def _take_batch(self, batch: RecordBatch) -> None:
        """Read one batch; InvalidRecords if it is damaged or beyond the limits."""
        for record in records(batch, LIMITS, self._check_time):
            if record.offset < self.offset or (self._text and not _holds(record, self._text)):
                continue
            if self.is_full:
                self.offset = record.offset
                return
            self.rows.append(_row(batch, record, self._wanted.most_bytes))
        self.offset = max(self.offset, batch.next_offset)

    def _check_time(self) -> None:
        if time.monotonic() > self._end_s:
            self.is_late = True
            raise _TakesTooLong(ErrorCode.REQUEST_TIMED_OUT, "a batch that takes long to open")


def _holds(record: Record, text: bytes) -> bool:
    if any(text in part.lower() for part in (record.key, record.value) if part):
        return True
    return any(
        text in name.lower().encode(errors="replace") or text in (value or b"").lower()
        for name, value in record.headers
    )


def _part(content: bytes | None, most_bytes: int) -> Part | None:
    return None if content is None else Part(content[:most_bytes], len(content))


def _row(batch: RecordBatch, record: Record, most_bytes: int) -> Row:
    marker = ""
    if batch.is_control:
        kind = int.from_bytes((record.key or b"")[2:4])
        marker = ControlType(kind).name.lower() if kind in (0, 1) else f"control {kind}"
    headers = tuple(
        (name[:MAX_NAME], _part(value, MAX_HEADER_BYTES))
        for name, value in record.headers[:MAX_HEADERS]
    )
    return Row(
        record.offset,
        record.timestamp,
        _part(record.key, min(MAX_KEY_BYTES, most_bytes)),
        _part(record.value, most_bytes),
        headers,
        len(record.headers) - len(headers),
        Compression(batch.compression).name.lower() if batch.compression else "",
        batch.producer_id,
        marker,
        batch.is_transactional,
    )
