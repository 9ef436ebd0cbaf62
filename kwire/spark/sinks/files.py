"""Parquet and JSON files whose names say topic, partition and offsets (``file_names``).

How a batch is written:

1. Spark's own writer writes the batch aside, into a new directory that readers don't see: below
   ``.kwire-TABLE`` beside the table's directory, or below ``_kwire/staging`` in it if the directory
   beside it is on another file system. Rows of one topic partition get into one file, without a
   sort or shuffle.
2. Each file is renamed to the name of its offset range.
3. The ranges are noted in ``_kwire/claims``.

Promises:

- A name is a range, and ranges don't overlap, so a reader finds each record once: before, during
  and after a kill at any point. Files that are aside are never seen, and the next start removes
  them.
- A batch that runs again writes the same names. A rename replaces a file as a whole where the file
  system can do that (a local one); elsewhere the old file is deleted first, and its rows are
  missing for a moment.
- If a batch runs again and a transform gives other rows for the same records, the new rows replace
  the old ones. Files of the batch without a successor are deleted.
- If a transform has dropped TOPIC or PARTITION, files can't be named by range. Their names are
  ``batch-QUERY-NUMBER-K``. Their rows are exactly once, too, but ``verify`` can't check them.
- The directories ``topic=…/partition=…`` give readers two columns, so a column of the rows that has
  such a name gets another one (``column_names``).
- Object stores rename by copying. An object appears as a whole, so the promise holds, at the price
  of writing the data twice.
- After a power failure the files are as durable as Spark's checkpoint: neither is forced to disk.
"""

import re
import uuid
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

from kwire.spark import rows as names
from kwire.spark.batch import Batch, OffsetRange
from kwire.spark.column_names import FILES, INCARNATION, PLAIN_FILES, stored_rows
from kwire.spark.columns import column
from kwire.spark.file_names import MARK, FileName, directory_of, is_hidden, parse, topic_directory
from kwire.spark.parquet_times import writer_of
from kwire.spark.setting_checks import near
from kwire.spark.settings import SinkSettings, Source, WrongSetting
from kwire.spark.sink import Held, OffsetsUnknown
from kwire.spark.sinks.claims import Claims, without
from kwire.spark.sinks.table_rows import held_in
from kwire.spark.sql import quoted
from kwire.spark.storage import Storage, storage_at

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

LOCK = "_kwire/lock"
"""The lock while files get their names and are noted: upkeep changes neither meanwhile."""

COMPLETE = "_SUCCESS"
"""Spark's mark in a directory that has all its files."""

MARKS = "mapreduce.fileoutputcommitter.marksuccessfuljobs"

OPTIONS = {
    "parquet": {"compression": ("snappy", "zstd", "gzip", "lz4", "none")},
    "json": {"compression": ("none", "gzip", "zstd", "bzip2", "lz4")},
}
"""The options of each kind, and their values; the first is the default."""

BY_TOPIC = "__kt"
"""Short: a directory's name has room for 255 characters, and a topic's for 249."""
_BY_PARTITION = "__kwire_partition"
_BY_NUMBER = "__kwire_number"
_NUMBER = re.compile(rf"{_BY_NUMBER}=(?P<number>\d+)/")
_PLACE = re.compile(rf"{BY_TOPIC}=(?P<topic>[^/]+)/{_BY_PARTITION}=(?P<partition>\d+)/")
_SUFFIX = re.compile(r"[.-]c\d{3,6}\.(?P<suffix>.+)$")
"""The end of Spark's names: ``.c000.json.gz`` in directories of partitions, ``-c000`` without."""
_MOST_OPEN_FILES = "64"
"""Files that a task writes at the same time; with more it sorts its rows first."""


def mark_topics(storage: Storage) -> None:
    """Rename directories of earlier versions, which have no mark before a topic such as 0042."""
    for one in storage.names():
        if one.startswith("topic="):
            wanted = topic_directory(one.removeprefix("topic="))
            if wanted != one:
                for file in list(storage.files(one)):  # both directories may be there
                    storage.rename(file, f"{wanted}{file.removeprefix(one)}")
                storage.delete(one)


class FilesSink:
    """The sink of the kinds ``parquet`` and ``json``."""

    def __init__(self, settings: SinkSettings, source: Source, pipeline: str) -> None:
        self._settings = settings
        self._storage: Storage
        self._aside: Storage
        self._is_first = True
        self._newest: tuple[str, int] = ("", -1)

    def check(self) -> None:
        """WrongSetting without a path, or for an option or value that isn't known."""
        if not self._settings.path:
            raise WrongSetting("sink.path", "", "the directory for the files")
        known = OPTIONS[self._settings.kind]
        for name, value in self._settings.options.items():
            if name not in known:
                raise WrongSetting(f"sink.{name}", value, near(name, known))
            if value not in known[name]:
                raise WrongSetting(f"sink.{name}", value, near(str(value), known[name]))

    def open(self, spark: "SparkSession") -> None:
        """Remove files that an earlier run has left aside, their marks first (``_written``)."""
        self._storage = storage_at(self._settings.path, spark)
        self._aside = storage_at(self._storage.aside(), spark)
        for one in self._aside.names():
            self._aside.delete(f"{one}/{COMPLETE}")
        self._aside.delete("")
        mark_topics(self._storage)
        self._is_first = True

    def has(self, spark: "SparkSession", batch: Batch) -> bool:
        """As ``KnowsBatches.has``: its files have their names, and its ranges are noted."""
        return Claims(self._storage).has_batch(batch)

    def write(self, rows: "DataFrame", batch: Batch) -> None:
        """Write a batch's rows exactly once; a transform may have changed where they are from."""
        named = {BY_TOPIC: column(names.TOPIC), _BY_PARTITION: column(names.PARTITION)}
        self.write_prepared(self._columns(rows, named), batch)

    def write_prepared(self, rows: "DataFrame", batch: Batch) -> None:
        """Write rows from ``prepared``."""
        aside = uuid.uuid4().hex
        is_by_range = bool({BY_TOPIC, _BY_NUMBER} & set(rows.columns))
        self._write_aside(rows, aside, is_by_range)
        written = self._written(aside)
        targets = by_range(written, batch) if is_by_range else by_batch(written, batch)
        with self._storage.locked(LOCK):
            claims = Claims(self._storage)
            claims.check(batch)
            if self._is_first or self._newest == (batch.query_id, batch.batch_id):
                # Only this batch may have been written before.
                targets = self._without_merged(targets, batch, claims)
            for old, new in targets.items():
                self._storage.rename(self._aside.url(old), new)
            claims.add(batch)
        self._aside.delete(aside)
        self._is_first = False
        self._newest = batch.query_id, batch.batch_id

    @property
    def used(self) -> set[str]:
        """As ``InSteps.used``."""
        return {names.TOPIC, names.PARTITION, *(f"_{one}" for one in self._settings.metadata)}

    def prepared(self, rows: "DataFrame", batch: Batch) -> "DataFrame":
        """The columns of the files, then the number of the row's topic partition in the batch.

        With a number, Spark finds a row's file in half the time that it takes with a topic's name.
        """
        number = _number(tuple(_first_numbers(batch).items()))
        return self._columns(rows, {_BY_NUMBER: number})

    def _columns(self, rows: "DataFrame", by: "dict[str, Column]") -> "DataFrame":
        """The columns of the files, then those that name the directories, where rows have them."""
        wanted = {f"_{name}" for name in self._settings.metadata}
        given = rows.columns
        own = {one for one in given if one not in names.METADATA or one in wanted}
        is_by_range = {names.TOPIC, names.PARTITION} <= set(given)
        rows = stored_rows(rows, FILES if is_by_range else PLAIN_FILES)
        found = [
            column(quoted(now))
            for before, now in zip(given, rows.columns, strict=True)
            if before in own
        ]
        if is_by_range:
            found += [one.alias(name) for name, one in by.items()]
        return rows.select(*found)

    def _write_aside(self, rows: "DataFrame", aside: str, is_by_range: bool) -> None:
        writer = writer_of(rows).format(self._settings.kind)
        writer = writer.options(**self._settings.options).option(MARKS, "true")
        if is_by_range:
            # With several files open at once a task needn't sort its rows by partition.
            rows.sparkSession.conf.set("spark.sql.maxConcurrentOutputFileWriters", _MOST_OPEN_FILES)
            by = (BY_TOPIC, _BY_PARTITION, _BY_NUMBER)
            writer = writer.partitionBy(*(one for one in by if one in rows.columns))
        try:
            writer.save(self._aside.url(aside))
        except Exception:
            # Spark leaves the directory. The batch may be written anew in this run.
            with suppress(Exception):
                self._aside.delete(aside)
            raise

    def _written(self, aside: str) -> list[str]:
        """The files of a batch; RuntimeError if another driver has begun to remove them.

        The mark is checked after the listing, and a removal begins with the mark. So an existing
        mark shows that the list is complete. A file that is removed after that can't be renamed.
        """
        found = sorted(one for one in self._aside.files(aside) if _is_data(one))
        if COMPLETE not in self._aside.names(aside):
            raise RuntimeError(
                f"{self._aside.url(aside)} has no {COMPLETE}: another driver writes to "
                f"{self._storage.url()} and has removed the batch; end one of the two"
            )
        return found

    def _without_merged(
        self, targets: dict[str, str], batch: Batch, claims: Claims
    ) -> dict[str, str]:
        """Delete files that only the first attempt has written; leave out files merged since.

        A file of a longer range has the batch's rows, if ``compact`` ran after the first attempt.
        Files of a range that the broker no longer has completely stay: they may have more rows of
        it.
        """
        kept = set(targets.values())
        merged: list[OffsetRange] = []
        directories = {directory_of(one.topic, one.partition) for one in batch.ranges}
        for name in [f"{one}/{name}" for one in directories for name in self._storage.names(one)]:
            found = parse(name)
            if found is None:
                continue
            held = range_of(found)
            if held in batch.incomplete and (found.part is None or claims.has(held)):
                merged.append(held)
            elif held in batch.ranges and name not in kept:
                self._storage.delete(name)
            merged += [one for one in batch.ranges if one != held and _contains(held, one)]
        start = _batch_stem(batch)
        older = [name for name in self._storage.names() if name.startswith(f"{start}-")]
        if older and batch.incomplete and all(map(claims.has, batch.ranges)):
            return {}
        for name in older:
            if name not in kept:
                self._storage.delete(name)
        return {
            old: new
            for old, new in targets.items()
            if (found := parse(new)) is None or range_of(found) not in merged
        }

    def held(self, spark: "SparkSession") -> Iterator[Held]:
        """The ranges that the files hold, by their names, and the ranges without a file."""
        storage = storage_at(self._settings.path, spark)
        by_range: dict[OffsetRange, list[str]] = {}
        for name in visible_files(storage):
            found = parse(name)
            if found is None:
                raise OffsetsUnknown(_no_range(storage.url(name), name.startswith("batch-")))
            by_range.setdefault(range_of(found), []).append(name)
        if by_range:
            has_offsets = "offset" in self._settings.metadata
            yield from (self._by_offsets if has_offsets else self._by_counts)(spark, by_range)
        yield from _without_files(Claims(storage), list(by_range))

    def _read(self, spark: "SparkSession") -> "DataFrame":
        """The files' rows: their offset, if they have it, and the name of their file."""
        from pyspark.sql import functions as f

        url = storage_at(self._settings.path, spark).url()
        reader = spark.read.format(self._settings.kind).schema(f"{names.OFFSET} long")
        name = f.substring_index(f.col("_metadata.file_path"), "/", -3)
        return reader.load(url).select(names.OFFSET, name.alias("name"))

    def _by_counts(
        self, spark: "SparkSession", by_range: dict[OffsetRange, list[str]]
    ) -> Iterator[Held]:
        rows = self._read(spark).groupBy("name").count()
        counts = {row["name"]: row["count"] for row in rows.collect()}
        for one, files in sorted(by_range.items()):
            yield Held(one, None, sum(counts.get(name, 0) for name in files))

    def _by_offsets(
        self, spark: "SparkSession", by_range: dict[OffsetRange, list[str]]
    ) -> Iterator[Held]:
        from pyspark.sql import functions as f

        for one in sorted(by_range):  # also where a file has no rows
            yield Held(one, iter(()), 0)
        incarnation = f.regexp_extract("name", r"/\d+-\d+-i(\d+)[^/]*$", 1)
        place = {
            names.TOPIC: f.regexp_extract("name", f"topic={MARK}?([^/]+)/", 1),
            names.PARTITION: f.regexp_extract("name", r"partition=(\d+)/", 1).cast("int"),
            INCARNATION: f.when(incarnation != "", incarnation.cast("int")),
        }
        yield from held_in(self._read(spark).withColumns(place))


@lru_cache(maxsize=8)
def _number(first: tuple[tuple[str, int], ...]) -> "Column":
    """The number of a row's topic partition, from the numbers of each topic's partition 0."""
    from pyspark.sql import functions as f

    found = f.lit(None).cast("int")
    for topic, number in first:
        found = f.when(f.col(names.TOPIC) == topic, f.lit(number)).otherwise(found)
    return f.col(names.PARTITION) + (f.lit(0) if len(first) == 1 else found)


def _no_range(url: str, is_of_batch: bool) -> str:
    """The error about a file whose offsets aren't known."""
    if is_of_batch:
        return (
            f"{url} is named by batch: a transform has dropped {names.TOPIC} or {names.PARTITION}, "
            "so nobody can say which offsets it holds"
        )
    return f"{url} isn't named as the sink names files, but readers see it: move it elsewhere"


def visible_files(storage: Storage) -> Iterator[str]:
    """The files that readers see; the names of files of partitions include their directory."""
    for top in storage.names():
        if top.startswith("topic="):
            yield from storage.files(top)
        elif not is_hidden(top):
            yield top


def range_of(name: FileName) -> OffsetRange:
    """The range in a file's name."""
    return OffsetRange(name.topic, name.partition, name.first, name.end, name.incarnation)


def _contains(long: OffsetRange, short: OffsetRange) -> bool:
    same = (long.topic, long.partition, long.incarnation)
    return (
        same == (short.topic, short.partition, short.incarnation)
        and long.first <= short.first
        and short.end <= long.end
    )


def _is_data(name: str) -> bool:
    return not is_hidden(name.rpartition("/")[2])


def _batch_stem(batch: Batch) -> str:
    """The beginning of the names of a batch's files, if they are named by batch."""
    return f"batch-{batch.query_id}-{batch.batch_id:010}"


def _suffix(name: str) -> str:
    """``.c000.snappy.parquet`` becomes ``parquet``; readers need both parts of ``json.gz``."""
    found = _SUFFIX.search(name.rpartition("/")[2])  # a topic's name may have such a part too
    suffix = found["suffix"] if found else name.rpartition(".")[2]
    return "parquet" if suffix.endswith(".parquet") else suffix


def by_range(written: list[str], batch: Batch) -> dict[str, str]:
    """The name of each file by the range of its topic and partition."""
    from urllib.parse import unquote

    ranges = {(one.topic, one.partition): one for one in batch.ranges}
    first = _first_numbers(batch)
    numbered = {first[topic] + partition: (topic, partition) for topic, partition in ranges}
    groups: dict[OffsetRange, list[str]] = {}
    for name in written:
        place, number = _PLACE.search(name), _NUMBER.search(name)
        key = (unquote(place["topic"]), int(place["partition"])) if place else ("", -1)
        if number:
            key = numbered.get(int(number["number"]), key)
        if key not in ranges:
            raise ValueError(
                f"a transform gave rows of {key[0]}-{key[1]}, which batch {batch.batch_id} hasn't "
                f"read: leave {names.TOPIC} and {names.PARTITION} as they are, or drop them"
            )
        groups.setdefault(ranges[key], []).append(name)
    return {
        name: str(
            FileName(
                one.topic,
                one.partition,
                one.first,
                one.end,
                number if len(files) > 1 else None,
                _suffix(name),
                one.incarnation,
            )
        )
        for one, files in groups.items()
        for number, name in enumerate(files)
    }


def _first_numbers(batch: Batch) -> dict[str, int]:
    """The number of each topic's partition 0: the partitions of all topics are numbered through."""
    found = {}
    after = 0
    for topic in sorted({one.topic for one in batch.ranges}):
        found[topic] = after
        after += 1 + max(one.partition for one in batch.ranges if one.topic == topic)
    return found


def by_batch(written: list[str], batch: Batch) -> dict[str, str]:
    """The name of each file by the batch."""
    start = _batch_stem(batch)
    return {name: f"{start}-{number}.{_suffix(name)}" for number, name in enumerate(written)}


def _without_files(claims: Claims, files: list[OffsetRange]) -> Iterator[Held]:
    """The covered ranges of which no row is left."""
    for one in claims.ranges():
        spans = [
            (other.first, other.end)
            for other in files
            if (other.topic, other.partition, other.incarnation)
            == (one.topic, one.partition, one.incarnation)
        ]
        for first, end in without((one.first, one.end), spans):
            empty = OffsetRange(one.topic, one.partition, first, end, one.incarnation)
            yield Held(empty, iter(()), 0)
