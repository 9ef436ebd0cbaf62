"""Reads records of a topic for the page: of one partition or of all, from either end.

Rules:

- The records of all partitions come in the order of their times; a partition's own order is never
  broken. For the newest ones, a partition is read backwards, window by window, and only while it
  may hold a record that is newer than what the others have left.
- The bytes come from the handler of Fetch, at most ``READ_BYTES`` at a time. A batch that is larger
  than ``MAX_BATCH_BYTES`` is not read; the page says so.
- Batches are opened in the thread of the HTTP port, whose processor time is limited
  (``kwire.web.governor``), one page at a time. No batch is opened beyond ``LIMITS``.
- A page ends after ``SEARCH_BYTES`` or ``SEARCH_S``, and then offers to continue from there. It
  reads ``MAX_PARTITIONS``, those with the newest records.
"""

import heapq
import os
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import trio

from kwire.budget.slices import Slices
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.file_slice import FileSlice
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.record.batch import HEADER_BYTES, LOG_OVERHEAD_BYTES, InvalidRecords, RecordBatch
from kwire.record.compression import Compression
from kwire.record.control import ControlType
from kwire.record.records import Record, records
from kwire.record.streaming_decompressor import Limits
from kwire.schemas.readable import MAX_VALUE_BYTES, is_framed
from kwire.web.cross_loop_calls import BrokerCalls, Observed
from kwire.web.page.asking import ask_broker

READ_BYTES = 1024 * 1024
MIN_READ_BYTES = 16 * 1024
MAX_BATCH_BYTES = 8 * 1024 * 1024
MAX_WINDOW_BYTES = 32 * 1024 * 1024
LIMITS = Limits(max_bytes=16 * 1024 * 1024, max_records=200_000, max_headers=200_000)
SEARCH_BYTES = 8 * 1024 * 1024
SEARCH_S = 2.0
MAX_PARTITIONS = 200
MAX_HEADERS = 20
MAX_HEADER_BYTES = 512
MAX_NAME = 200
MAX_KEY_BYTES = 4096
FRAMED_BYTES = 4 * 1024 * 1024
"""How much a page keeps of those keys and values that are decoded by their schemas."""

_FETCH_VERSION = 12
_LIST_VERSION = 11


class Chunk(NamedTuple):
    """Bytes of batches; ``too_large_bytes`` is the size of a first batch of which only the header
    was read, else 0.
    """

    content: bytes
    too_large_bytes: int


class Part(NamedTuple):
    """The beginning of a key, a value or a header's value, and its whole size."""

    content: bytes
    size_bytes: int


class Row(NamedTuple):
    """A record, with fields of its batch; ``problem`` is set for a batch that can't be opened."""

    partition: int
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


class Place(NamedTuple):
    """A partition that can be read, and the time of its newest record."""

    partition: int
    log_start: int
    end: int
    size_bytes: int
    newest_ms: int


class Places(NamedTuple):
    """The partitions to read; ``total`` counts all of the topic, ``elsewhere`` other brokers'."""

    places: list[Place]
    total: int
    elsewhere: int


class Wanted(NamedTuple):
    """The wanted records: at most so many, from the newest or from the oldest one on.

    ``partition`` is None for all of them. ``starts`` has the offsets to begin with: in a partition
    without one, the reading begins at its end. ``most_bytes`` is how much of a value is kept.
    With ``keeps_framed`` keys and values whose schema is in a registry are kept whole.
    """

    topic: str
    partition: int | None
    is_newest_first: bool
    starts: Mapping[int, int]
    most: int
    keeps: Callable[[Record], bool] | None = None
    most_bytes: int = 1024
    keeps_framed: bool = False


class Found(NamedTuple):
    """The records of a page; ``rest`` are the offsets at which to continue, empty at the end.

    ``is_complete`` says whether the wanted number or the last record was reached, and not a limit.
    """

    rows: list[Row]
    rest: dict[int, int]
    places: Places
    read_bytes: int
    is_complete: bool


class _TakesTooLong(InvalidRecords):
    """The time of the page is over before a batch is open."""


async def fetch(observed: Observed, topic: str, index: int, offset: int, most_bytes: int) -> Chunk:
    """Bytes of a partition from the batch with this offset on, in the broker's loop; KafkaError."""
    partition = FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=most_bytes)
    request = FetchRequest(
        max_bytes=most_bytes, topics=[FetchTopic(topic=topic, partitions=[partition])]
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
        size_bytes = HEADER_BYTES if too_large_bytes else part.size_bytes
        reading = observed.broker.threads.cold_reads
        content = await reading.run(os.pread, part.fd, size_bytes, part.position)
    return Chunk(content, too_large_bytes)


async def places_of(
    observed: Observed, topic: str, index: int | None, known: Iterable[int] = ()
) -> Places:
    """The partitions to read, ``known`` ones first, in the broker's event loop; KafkaError."""
    broker, slices = observed.broker, Slices()
    image = broker.image.topics_by_name.get(topic)
    if image is None:
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"there is no topic {topic}")
    if index is not None:
        broker.partition(topic, index)  # raises what is wrong with it
    count = len(image.partitions)
    first = frozenset(known)
    found: list[tuple[bool, int, int, Place]] = []  # a heap of those to read so far
    served = 0
    for one in range(count) if index is None else [index]:
        await slices.give_way()
        partition = broker.partition_if_served(topic, one)
        if partition is None:
            continue
        log, end = partition.log, partition.high_watermark
        times = (segment.max_timestamp for segment in reversed(log.segments))
        newest_ms = next((at_ms for at_ms in times if at_ms >= 0), -1)
        place = Place(one, log.log_start_offset, end, log.size_bytes, newest_ms)
        heapq.heappush(found, (one in first, newest_ms, -one, place))
        if len(found) > MAX_PARTITIONS:
            heapq.heappop(found)
        served += 1
    places = [place for *_, place in sorted(found, reverse=True)]
    return Places(places, count, count - served if index is None else 0)


async def offsets_at(
    observed: Observed, topic: str, indexes: Iterable[int], at_ms: int
) -> dict[int, int]:
    """The offset of the first record of each partition that is not older than a time.

    A partition whose records are all older is left out. KafkaError.
    """
    partitions = [ListOffsetsPartition(partition_index=one, timestamp=at_ms) for one in indexes]
    request = ListOffsetsRequest(
        replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=partitions)]
    )
    answer: Any = await ask_broker(observed, request, _LIST_VERSION)
    for found in answer.topics[0].partitions:
        if found.error_code:
            where = f"{topic}, partition {found.partition_index}"
            raise KafkaError(ErrorCode(found.error_code), where)
    return {
        one.partition_index: one.offset for one in answer.topics[0].partitions if one.offset >= 0
    }


async def read(broker_calls: BrokerCalls, wanted: Wanted, places: Places) -> Found:
    """The records of one page; KafkaError."""
    budget = _Budget()
    kind = _Backwards if wanted.is_newest_first else _Forwards
    found, count = places.places, len(places.places)
    sides = {place.partition: kind(broker_calls, wanted, place, budget, count) for place in found}
    heap = [side.turn for side in sides.values() if side.has_more]
    heapq.heapify(heap)
    rows: list[Row] = []
    is_complete = True
    while heap and len(rows) < wanted.most:
        side = sides[heapq.heappop(heap)[-1]]
        if side.rows:
            rows.append(side.rows.popleft())
        elif budget.is_over:
            is_complete = False
            continue
        else:
            await side.read_on()
        if side.has_more:
            heapq.heappush(heap, side.turn)
    has_more = any(side.has_more for side in sides.values())
    rest = {
        index: side.rest
        for index, side in sides.items()
        if index in wanted.starts or side.rest != side.begin
    }
    return Found(rows, rest if has_more else {}, places, budget.read_bytes, is_complete)


class _Budget:
    """What is left of the bytes and the time of a page."""

    def __init__(self) -> None:
        self.read_bytes = 0
        self.windows = 0
        self._framed_bytes = FRAMED_BYTES
        self._end_s = time.monotonic() + SEARCH_S

    @property
    def is_late(self) -> bool:
        """Whether the time is over."""
        return time.monotonic() > self._end_s

    @property
    def is_over(self) -> bool:
        """Whether no further window may be read."""
        return self.read_bytes >= SEARCH_BYTES or (self.windows > 0 and self.is_late)

    def keeps_framed(self, content: bytes) -> bool:
        """Whether a key or a value with the header of a registry's may be kept whole; counts it."""
        if not is_framed(content) or len(content) > min(MAX_VALUE_BYTES, self._framed_bytes):
            return False
        self._framed_bytes -= len(content)
        return True

    def check_time(self) -> None:
        """Raise _TakesTooLong once the time is over."""
        if self.is_late:
            raise _TakesTooLong(ErrorCode.REQUEST_TIMED_OUT, "a batch that takes long to open")


class _Side(ABC):
    """One partition: its rows that wait for their turn, and the offset up to which it was read."""

    sign = 1
    """The side with the least ``sign`` times its time comes next."""

    def __init__(
        self, broker_calls: BrokerCalls, wanted: Wanted, place: Place, budget: _Budget, sides: int
    ) -> None:
        self.rows: deque[Row] = deque()
        self._broker_calls = broker_calls
        self._wanted = wanted
        self._place = place
        self._budget = budget
        outset = place.end if wanted.is_newest_first else place.log_start
        begin = wanted.starts.get(place.partition, outset)
        self.begin = self.position = min(max(begin, place.log_start), place.end)
        self._time_ms = place.newest_ms
        share_bytes = READ_BYTES if wanted.keeps else READ_BYTES // sides
        self._chunk_bytes = min(READ_BYTES, max(MIN_READ_BYTES, share_bytes))

    @property
    def turn(self) -> tuple[int, bool, int]:
        """The place in the order: by time; rows before what isn't read yet."""
        at_ms = self.rows[0].timestamp if self.rows else self._time_ms
        return self.sign * at_ms, not self.rows, self._place.partition

    @property
    @abstractmethod
    def has_more(self) -> bool:
        """Whether there are rows, or offsets that weren't read."""

    @property
    @abstractmethod
    def rest(self) -> int:
        """The offset at which the next page continues."""

    @abstractmethod
    async def read_on(self) -> None:
        """Read a window of the partition."""

    async def _fill_window(self, window: "_Window") -> None:
        """Read until a window is done."""
        self._budget.windows += 1
        read_bytes = 0
        while not window.is_done:
            before = window.next_offset
            chunk = await self._broker_calls.run(
                fetch, self._wanted.topic, self._place.partition, before, self._chunk_bytes
            )
            read_bytes += len(chunk.content)
            self._budget.read_bytes += len(chunk.content)
            if chunk.too_large_bytes:
                window.skip(chunk)
            else:
                await window.take(chunk.content)
            if window.next_offset == before or read_bytes > MAX_WINDOW_BYTES:
                window.is_late = True


class _Forwards(_Side):
    """From the oldest record on."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._time_ms = -1

    @property
    def has_more(self) -> bool:
        return bool(self.rows) or self.position < self._place.end

    @property
    def rest(self) -> int:
        return self.rows[0].offset if self.rows else self.position

    async def read_on(self) -> None:
        """Read a chunk, or until there are enough rows."""
        window = _Window(self._wanted, self._place, self.position, self.position + 1, self._budget)
        await self._fill_window(window)
        self.rows.extend(window.rows)
        self.position = max(window.next_offset, self.position)
        self._time_ms = max(window.last_ms, self._time_ms)


class _Backwards(_Side):
    """From the newest record back, in windows that grow while they hold nothing."""

    sign = -1

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        place = self._place
        average_bytes = max(1, place.size_bytes // max(1, place.end - place.log_start))
        self._most = max(self._wanted.most, READ_BYTES // average_bytes)
        self._span = self._most if self._wanted.keeps else self._wanted.most
        self._average_bytes = average_bytes

    @property
    def has_more(self) -> bool:
        return bool(self.rows) or self.position > self._place.log_start

    @property
    def rest(self) -> int:
        return self.rows[0].offset + 1 if self.rows else self.position

    async def read_on(self) -> None:
        """Read the window before the position."""
        start = max(self._place.log_start, self.position - self._span)
        wanted_bytes = (self.position - start) * self._average_bytes * 2
        self._chunk_bytes = min(READ_BYTES, max(MIN_READ_BYTES, wanted_bytes))
        self._span = min(self._span * 4, self._most)
        window = _Window(self._wanted, self._place, start, self.position, self._budget)
        await self._fill_window(window)
        if window.is_late:
            if self._budget.windows > 1:
                return  # the next page reads it as its first window
            window.note(window.next_offset, self._time_ms, "the page ran out of time or bytes here")
        rows = list(window.rows)
        if len(rows) > self._wanted.most:
            rows = rows[-self._wanted.most :]
            self.position = rows[0].offset
        else:
            self.position = max(min(window.first_offset, start), self._place.log_start)
        self.rows.extend(reversed(rows))
        if window.first_ms >= 0:
            self._time_ms = min(self._time_ms, window.first_ms)


class _Window:
    """Rows of one partition's batches, from the batch with ``start`` on, to before ``end``.

    A batch is opened whole: backwards, its rows before ``start`` count too; forwards, those after
    ``end``. Of more rows than wanted, the first ones are kept forwards, the last ones backwards and
    one more.
    """

    def __init__(self, wanted: Wanted, place: Place, start: int, end: int, budget: _Budget) -> None:
        back = wanted.is_newest_first
        self.rows: deque[Row] = deque(maxlen=wanted.most + 1 if back else None)
        self.first_offset = self.next_offset = start
        self.first_ms = self.last_ms = -1
        self.is_late = False
        self._wanted = wanted
        self._index = place.partition
        self._offsets = range(place.log_start, end) if back else range(start, place.end)
        self._end = end
        self._budget = budget

    @property
    def is_done(self) -> bool:
        """Whether the window is read, or its time or its bytes are over."""
        return self.is_late or self._is_full or self.next_offset >= self._end

    @property
    def _is_full(self) -> bool:
        return not self._wanted.is_newest_first and len(self.rows) >= self._wanted.most

    def note(self, offset: int, at_ms: int, problem: str) -> None:
        """Add a row that says why the records from an offset on are missing."""
        what = f"{problem}; read it with a consumer"
        self.rows.append(Row(self._index, max(offset, self._offsets.start), at_ms, problem=what))

    def skip(self, chunk: Chunk) -> None:
        """Note a batch that is not read, by its header."""
        batch = RecordBatch(chunk.content, 0, header_only=True)
        what = f"a batch of {chunk.too_large_bytes:,} bytes is more than the page opens"
        self.note(batch.base_offset, batch.base_timestamp, what)
        self.next_offset = batch.next_offset

    async def take(self, content: bytes) -> None:
        """Open the batches in these bytes, until the window is done."""
        position = 0
        while position + LOG_OVERHEAD_BYTES <= len(content) and not self.is_done:
            size_bytes = int.from_bytes(content[position + 8 : position + 12]) + LOG_OVERHEAD_BYTES
            if position + size_bytes > len(content):
                break  # the fetch has cut the last batch
            if self._budget.windows > 1 and self._budget.is_late:
                self.is_late = True
                break
            batch = RecordBatch(content, position)
            if self.first_ms < 0:
                self.first_offset, self.first_ms = batch.base_offset, batch.base_timestamp
            next_offset = self._open_batch(batch)
            self.next_offset = max(self.next_offset, next_offset)
            self.last_ms = max(self.last_ms, batch.max_timestamp)
            position += size_bytes
            await trio.lowlevel.checkpoint()  # lets the governor count, and other tasks run

    def _open_batch(self, batch: RecordBatch) -> int:
        """Read one batch, and return the next offset.

        A row says so if the batch is damaged, or beyond the limits.
        """
        try:
            for record in records(batch, LIMITS, self._budget.check_time):
                if record.offset not in self._offsets or not self._keeps(record):
                    continue
                if self._is_full:
                    return record.offset
                self.rows.append(self._row(batch, record))
        except _TakesTooLong as error:
            self.is_late = True
            self.note(batch.base_offset, batch.base_timestamp, error.message or "")
        except InvalidRecords as error:
            self.note(batch.base_offset, batch.base_timestamp, error.message or "a damaged batch")
        return batch.next_offset

    def _keeps(self, record: Record) -> bool:
        if self._wanted.keeps is None:
            return True
        self._budget.check_time()  # to read a value by its schema takes its time
        return self._wanted.keeps(record)

    def _row(self, batch: RecordBatch, record: Record) -> Row:
        row, most_bytes = _row(self._index, batch, record, self._wanted.most_bytes), MAX_VALUE_BYTES
        if not self._wanted.keeps_framed:
            return row
        if record.key and self._budget.keeps_framed(record.key):
            row = row._replace(key=_part(record.key, most_bytes))
        if record.value and self._budget.keeps_framed(record.value):
            row = row._replace(value=_part(record.value, most_bytes))
        return row


def _part(content: bytes | None, most_bytes: int) -> Part | None:
    return None if content is None else Part(content[:most_bytes], len(content))


def _row(index: int, batch: RecordBatch, record: Record, most_bytes: int) -> Row:
    marker = ""
    if batch.is_control:
        kind = int.from_bytes((record.key or b"")[2:4])
        marker = ControlType(kind).name.lower() if kind in (0, 1) else f"control {kind}"
    headers = tuple(
        (name[:MAX_NAME], _part(value, MAX_HEADER_BYTES))
        for name, value in record.headers[:MAX_HEADERS]
    )
    return Row(
        index,
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
