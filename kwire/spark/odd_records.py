"""Reads records that Spark's connector can't turn into rows, by kwire's own client.

The connector fails a task, and so ends a pipeline at each start, without a word about the record:

- It computes with microseconds in 64 bits. A record that is stamped in nanoseconds, or with -2^62,
  is beyond them.
- Java's client refuses a batch whose records aren't what the batch's header says (a header without
  a name, for instance). Brokers that trust a batch's checksum have stored it. It refuses a batch
  whose checksum is wrong, too, as after damage on a broker's disk.
- It shifts timestamps before 1900, because Java's calendar isn't Spark's. Such a record gives no
  error, but a wrong value. ``exact`` makes an error of it.

Rules:

- ``either_way`` reads by the connector, and only after such an error by kwire's client.
- The rows have the connector's columns, besides STAMP and REASON. The decoder makes dead letters of
  records with a REASON, and of those whose timestamp isn't within the years 1 to 9999.
- From the first record of a batch on that can't be read, there is one row without key and value,
  whose REASON says up to which offset. A small batch may claim millions of offsets.
- A Python worker reads a range in pieces, so that one piece at a time is in memory.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import trio

from kwire.client.fetcher import Fetcher
from kwire.client.leaders import TopicPartition, first_error
from kwire.client.offsets import ends_of
from kwire.record.batch import InvalidRecords, RecordBatch
from kwire.record.records import Record, records
from kwire.spark.batch import OffsetRange
from kwire.spark.reading_ranges import read_ranges
from kwire.spark.rows import REASON, STAMP
from kwire.spark.settings import Source
from kwire.spark.source_client import open_source

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

T = TypeVar("T")

PIECE_BYTES = 16 * 1024 * 1024
"""How many bytes of records a worker reads before it hands on their rows."""

_RANGE = "topic string, partition int, first long, end long"
_ROWS = (
    "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    f"headers array<struct<key: string, value: binary>>, {STAMP} long, {REASON} string"
)
_INEXACT = "kwire reads timestamps before 1900 by its own client"
_ERRORS = (
    _INEXACT,
    "ArithmeticException: long overflow",
    "Received exception when fetching the next record",
    "RecordDeserializationException",
    "InvalidRecordException",
)
"""Parts of the errors that another way of reading may avoid."""

_LARGEST_MS = 0x7FFF_FFFF_FFFF_FFFF // 1000


def either_way(
    spark: "SparkSession",
    source: Source,
    ranges: Sequence[OffsetRange],
    work: "Callable[[DataFrame], T]",
) -> T:
    """Do some work with the records of ranges; again by kwire's client if the connector fails."""
    try:
        return work(read_ranges(spark, source, ranges))
    except Exception as error:
        if not is_by_odd_records(error):
            raise
    return work(read_by_client(spark, source, ranges))


def is_by_odd_records(error: Exception) -> bool:
    """Whether the connector has failed because of a record, and not of a broker or of Spark."""
    return is_told(error, _ERRORS)


def is_told(error: Exception, parts: Iterable[str]) -> bool:
    """Whether an error of Spark, or one of its JVM that it stands for, has one of these texts."""
    inner: Any = error
    found = f"{error} {getattr(inner, 'java_exception', '')} {getattr(inner, '_origin', '')}"
    return any(one in found for one in parts)


def exact(records: "DataFrame") -> "DataFrame":
    """Records of the connector; their reading fails if it has changed the time of one of them."""
    return records.withColumn("timestamp", _checked())


@lru_cache(maxsize=1)
def _checked() -> "Column":
    from pyspark.sql import functions as f

    is_early = f.unix_micros("timestamp") < f.lit(-2_208_900_000_000_000)  # 2 January 1900
    wrong = f.raise_error(f.lit(_INEXACT)).cast("timestamp")
    return f.when(is_early, wrong).otherwise(f.col("timestamp"))


def read_by_client(
    spark: "SparkSession", source: Source, ranges: Iterable[OffsetRange]
) -> "DataFrame":
    """The records of ranges, read by Python workers with kwire's own client."""
    rows = [(one.topic, one.partition, one.first, one.end) for one in ranges]
    tasks = spark.createDataFrame(rows, _RANGE).repartition(max(len(rows), 1))

    def work(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for row in batch.to_pylist():
                place = TopicPartition(row["topic"], row["partition"])
                yield from _rows(source, place, row["first"], row["end"])

    return tasks.mapInArrow(work, _ROWS)


class Unreadable(Record):
    """What stands for records that can't be read: it has no content, and is no tombstone."""

    __slots__ = ()


class _Piece(NamedTuple):
    records: list[Record]
    next_offset: int


def _rows(source: Source, place: TopicPartition, first: int, end: int) -> Iterator[Any]:
    """Arrow's RecordBatches of a range."""
    while first < end:
        reasons: dict[int, str] = {}
        piece: _Piece = trio.run(_read_piece, source, place, first, end, reasons)
        yield _record_batch(place, piece.records, reasons)
        first = piece.next_offset


async def _read_piece(
    source: Source, place: TopicPartition, first: int, end: int, reasons: dict[int, str]
) -> _Piece:
    """The records of a range from its first one on; ``reasons`` gets why some can't be read."""

    def read(batch: RecordBatch) -> Iterable[Record]:
        return readable(batch, reasons)

    found: list[Record] = []
    is_committed = source.isolation_level == "read_committed"
    async with open_source(source) as cluster:
        [log_end] = (await ends_of(cluster, [place], read_committed=is_committed)).values()
        if log_end < end:
            # A reader would wait for records that may never come.
            raise RuntimeError(
                f"{place.topic}-{place.partition} ends at offset {log_end}, and was to be read up "
                f"to {end - 1}: the broker has lost records, or the topic was created again"
            )
        fetcher = Fetcher(
            cluster,
            {place: first},
            read_committed=is_committed,
            partition_max_bytes=PIECE_BYTES,
            read=read,
        )
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(fetcher.run)
                while first < end and not found:
                    fetched = await fetcher.next()
                    found += [one for one in fetched.records if one.offset < end]
                    first = fetched.next_offset
                nursery.cancel_scope.cancel()
        except BaseExceptionGroup as group:
            raise first_error(group) from group
    return _Piece(found, first)


def readable(batch: RecordBatch, reasons: dict[int, str]) -> list[Record]:
    """The records of a batch; from the first on that can't be read, one without content for all.

    ``reasons`` gets the reason at its offset.
    """
    found: list[Record] = []
    try:
        batch.verify_crc()
        found.extend(records(batch))  # which keeps those before an error
    except InvalidRecords as error:
        after = found[-1].offset + 1 if found else batch.base_offset
        if not found or after <= batch.last_offset:
            rest = f"the rest of its batch, up to offset {batch.last_offset},"
            reasons[after] = f"{rest} can't be read: {error}"
            found.append(Unreadable(after, batch.base_timestamp, None, None))
    return found


def _record_batch(place: TopicPartition, records: list[Record], reasons: dict[int, str]) -> Any:
    """Arrow's RecordBatch of some records."""
    import pyarrow as pa

    header = pa.struct([("key", pa.string()), ("value", pa.binary())])
    return pa.RecordBatch.from_pydict(
        {
            "key": pa.array([one.key for one in records], pa.binary()),
            "value": pa.array([one.value for one in records], pa.binary()),
            "topic": pa.array([place.topic] * len(records), pa.string()),
            "partition": pa.array([place.partition] * len(records), pa.int32()),
            "offset": pa.array([one.offset for one in records], pa.int64()),
            "timestamp": pa.array(map(_micros, records), pa.timestamp("us", "UTC")),
            "headers": pa.array(map(_headers, records), pa.list_(header)),
            STAMP: pa.array([one.timestamp for one in records], pa.int64()),
            REASON: pa.array([reasons.get(one.offset) for one in records], pa.string()),
        }
    )


def _micros(record: Record) -> int | None:
    return record.timestamp * 1000 if abs(record.timestamp) <= _LARGEST_MS else None


def _headers(record: Record) -> list[tuple[str, bytes | None]] | None:
    """The headers as the connector has them; wrong bytes of a name are U+FFFD, as in Java."""
    return [
        (name.encode(errors="surrogateescape").decode(errors="replace"), value)
        for name, value in record.headers
    ] or None
