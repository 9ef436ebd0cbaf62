"""Makes records of input lines, collects them into batches, and writes the batches."""

import argparse
import time
from typing import TYPE_CHECKING

import trio

from kwire.cli.progress import Progress
from kwire.cli.record_input import Piece
from kwire.cli.record_lines import ReadRecord, RecordLineError, read_json
from kwire.cli.session import CommandError, described
from kwire.client.cluster import Cluster
from kwire.client.leaders import TopicPartition
from kwire.client.partitioner import partition_of_key
from kwire.client.producer import produce
from kwire.errors import KafkaError
from kwire.record.compression import BY_NAME, Compression
from kwire.record.records import BatchBuilder, Headers

if TYPE_CHECKING:
    from kwire.cli.schema_encoding import SchemaEncoding

_ACKS = {"all": -1, "1": 1, "0": 0}
_OVERHEAD_BYTES = 32


class LineProducer:
    """Writes a record for each line to one topic."""

    def __init__(
        self,
        cluster: Cluster,
        options: argparse.Namespace,
        partitions: list[int],
        encoding: "SchemaEncoding | None" = None,
    ) -> None:
        self._encoding = encoding
        self._cluster = cluster
        self._options = options
        self._partitions = partitions
        self._codec = BY_NAME.get(options.compression, Compression.NONE)
        self._headers: Headers = tuple(options.header)
        self._key = None if options.key is None else options.key.encode()
        self._separator = None if options.key_separator is None else options.key_separator.encode()
        self._batches: dict[int, BatchBuilder] = {}
        self._counts: dict[int, int] = {}
        self._bytes = 0
        self._keyless = cluster.random.randrange(len(partitions))
        self._written = 0
        self._started_s = trio.current_time()
        self._progress = Progress("written", is_on=not options.quiet)
        if options.partition is not None and options.partition not in partitions:
            raise CommandError(
                f"{options.topic} has no partition {options.partition}; it has "
                f"{partitions[0]} to {partitions[-1]}"
            )

    async def put(self, piece: Piece) -> None:
        """Write the records of a piece of input; CommandError, KafkaError or ClientError."""
        self._progress.take_input(piece.size_bytes, piece.total_bytes)
        for place, line in enumerate(piece.lines):
            try:
                record = self._record(line)
                if self._encoding is not None:
                    record = self._encoding.encoded(record)
                partition = self._partition_of(record)
            except RecordLineError as error:
                await self._flush()
                where = f"{piece.source}, line {piece.first_line + place}"
                raise CommandError(f"{where}: {error}; {self._written} records written") from error
            self._add(partition, record)
            if self._bytes >= self._options.batch_bytes:
                await self._flush()
            if self._options.rate:
                await self._keep_rate()
        await self._flush()

    async def finish(self) -> None:
        """Print how many records were written."""
        self._progress.finish(self._written)

    def _record(self, line: bytes) -> ReadRecord:
        """The record of a line; RecordLineError."""
        if self._options.format == "json":
            found = read_json(line)
            return found._replace(
                key=found.key if self._key is None else self._key,
                headers=found.headers + self._headers,
            )
        key, value = self._key, line
        if self._separator is not None and self._options.format == "line":
            key, separator, value = line.partition(self._separator)
            if not separator:
                raise RecordLineError(f"it has no {self._options.key_separator!r} after its key")
        is_tombstone = self._options.tombstones and not value
        return ReadRecord(key, None if is_tombstone else value, self._headers)

    def _partition_of(self, record: ReadRecord) -> int:
        """The partition by the option, the line or the key; else another one for each batch."""
        chosen = self._options.partition
        if chosen is None:
            chosen = record.partition
        if chosen is not None:
            if chosen not in self._partitions:
                raise RecordLineError(f"{self._options.topic} has no partition {chosen}")
            return int(chosen)
        if record.key is not None:
            return partition_of_key(record.key, len(self._partitions))
        return self._partitions[self._keyless % len(self._partitions)]

    def _add(self, partition: int, record: ReadRecord) -> None:
        batch = self._batches.get(partition)
        if batch is None:
            batch = self._batches[partition] = BatchBuilder()
            self._counts[partition] = 0
        timestamp = int(time.time() * 1000) if record.timestamp is None else record.timestamp
        batch.add(timestamp, record.key, record.value, record.headers)
        self._counts[partition] += 1
        self._bytes += len(record.key or b"") + len(record.value or b"") + _OVERHEAD_BYTES

    async def _flush(self) -> None:
        """Write all collected records."""
        if not self._batches:
            return
        batches = {
            TopicPartition(self._options.topic, partition): bytes(
                batch.build(compression=self._codec)
            )
            for partition, batch in self._batches.items()
        }
        counts = self._counts
        self._batches, self._counts, self._bytes = {}, {}, 0
        self._keyless += 1
        results = await produce(
            self._cluster,
            batches,
            acks=_ACKS[self._options.acks],
            timeout_ms=int(self._options.timeout * 1000),
        )
        failed: KafkaError | None = None
        for one, result in results.items():
            if isinstance(result, KafkaError):
                failed = failed or result
            else:
                self._written += counts[one.partition]
        if failed is not None:
            raise CommandError(
                f"{described(failed, self._options)}; {self._written} records written"
            )
        self._progress.advance(self._written)

    async def _keep_rate(self) -> None:
        """Send the collected records, then wait until the rate allows the next record."""
        in_hand = sum(self._counts.values())
        due_s = self._started_s + (self._written + in_hand) / self._options.rate
        if due_s > trio.current_time():
            await self._flush()
            await trio.sleep_until(due_s)
