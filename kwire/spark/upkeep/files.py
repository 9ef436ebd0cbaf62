"""The upkeep of the files sink: adjacent files become one, old ones go, ranges are written again.

Rules:

- Readers of the plain directory see each record once at any time, because several files are
  replaced at once (``exchange``). Expired files are deleted one by one, the oldest first.
- The newest range of a partition is neither merged nor deleted. Spark runs only its newest batch
  again, and that batch must find its own file names.
- A merged file has the whole range in its name, and the modification time of its newest part.
- Only directories of a file system on this machine can be changed. Object stores can't exchange
  directories at once: use a table format there.
"""

import os
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from uuid import uuid4

from kwire.spark.batch import OffsetRange
from kwire.spark.column_names import FILES, stored_rows
from kwire.spark.file_names import FileName, directory_of, parse
from kwire.spark.parquet_times import writer_of
from kwire.spark.reporting import Report, silent
from kwire.spark.rows import METADATA, OFFSET, PARTITION, TOPIC
from kwire.spark.settings import SinkSettings, WrongSetting
from kwire.spark.sinks.claims import Claims
from kwire.spark.sinks.files import mark_topics, range_of
from kwire.spark.sql import quoted
from kwire.spark.storage import LocalStorage
from kwire.spark.upkeep import Cutoff, Done
from kwire.spark.upkeep.conditions import is_same_log
from kwire.spark.upkeep.exchange import Changed, change, table_lock, upkeep
from kwire.spark.upkeep.old_times import has_old_times
from kwire.spark.upkeep.parquet import merge_parquet

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_COPY_BYTES = 1024 * 1024


class Known(NamedTuple):
    """A file of the sink."""

    name: FileName
    size_bytes: int
    modified_s: float


class Upkeep:
    """The upkeep of the directory ``path``."""

    def __init__(self, settings: SinkSettings) -> None:
        self._settings = settings
        path = settings.path.removeprefix("file://")
        if "://" in path:
            allowed = "a directory of this machine; elsewhere use a sink of kind delta or iceberg"
            raise WrongSetting("sink.path", settings.path, allowed)
        self._top = Path(path).absolute()
        # The pipeline may not have run since an earlier version wrote.
        mark_topics(LocalStorage(self._top))

    @property
    def needs_spark(self) -> bool:
        """Whether a file has times that only Spark reads as they are."""
        return any(map(self._is_old, self._files()))

    def _is_old(self, one: Known) -> bool:
        path = self._top / str(one.name)
        return one.name.extension == "parquet" and has_old_times(path)

    def compact(
        self, spark: "SparkSession | None", target_bytes: int, report: Report = silent
    ) -> Done:
        """Write files with old times again, then merge adjacent files of each partition."""
        merged = 0
        with upkeep(self._top) as aside:
            newest = Claims(LocalStorage(self._top)).newest
            for unit in [unit for each in _by_partition(self._files()) for unit in each]:
                if range_of(unit[0].name) not in newest and any(map(self._is_old, unit)):
                    if spark is None:
                        raise Changed(f"{unit[0].name} has just been written: run it again")
                    self._renew(spark, unit, aside)
            before = list(self._files())
            groups = merges(before, target_bytes, newest)
            total, done = sum(map(len, groups)), 0
            for group in groups:
                report("merging files", done, total)
                self._merge(group, aside)
                done += len(group)
                merged += len(group) - 1
        return Done(files_before=len(before), files_after=len(before) - merged)

    def _renew(self, spark: "SparkSession", unit: Sequence[Known], aside: Path) -> None:
        """Write the rows of a range again, with the times that its readers expect."""
        urls = [f"file://{self._top / str(one.name)}" for one in unit]
        rows = spark.read.option("mergeSchema", "true").parquet(*urls).coalesce(1)
        where = aside / uuid4().hex
        writer = writer_of(rows).options(**self._settings.options)
        writer.option("maxRecordsPerFile", 0).parquet(f"file://{where.absolute()}")
        newest_s = max(one.modified_s for one in unit)
        whole = unit[0].name._replace(part=None)
        part = _only_part(where)
        assert part is not None, urls
        os.utime(part, (newest_s, newest_s))
        change(self._top, whole.directory, {one.name.name for one in unit}, {whole.name: part})

    def _merge(self, group: Sequence[Known], aside: Path) -> None:
        names = [one.name for one in group]
        whole = names[0]._replace(end=names[-1].end, part=None)
        path = aside / whole.name
        sources = [self._top / str(one) for one in names]
        if whole.extension == "parquet":
            merge_parquet(sources, path)
        else:
            _merge_lines(sources, path)
        newest_s = max(one.modified_s for one in group)
        os.utime(path, (newest_s, newest_s))
        change(self._top, whole.directory, {one.name for one in names}, {whole.name: path})

    def expire(self, spark: "SparkSession | None", cutoff: Cutoff, keep_s: int) -> Done:
        """Delete whole files that were written before a time, or end before an offset."""
        with upkeep(self._top):
            before = list(self._files())
            doomed = list(expired(before, cutoff))
            if doomed:
                # Before the files go: a kill in between must leave no gaps for ``verify``.
                with table_lock(self._top):
                    Claims(LocalStorage(self._top)).expire(range_of(one.name) for one in doomed)
            for one in doomed:
                (self._top / str(one.name)).unlink(missing_ok=True)
        return Done(files_before=len(before), files_after=len(before) - len(doomed))

    def ranges(self, spark: "SparkSession", wanted: OffsetRange) -> list[OffsetRange]:
        """The ranges of the files that have offsets of a range; whole files are written again."""
        found = {
            one
            for one in map(range_of, self._names())
            if is_same_log(one, wanted) and one.first < wanted.end and wanted.first < one.end
        }
        return sorted(found)

    def replay(
        self, spark: "SparkSession", rows: "DataFrame", ranges: Sequence[OffsetRange]
    ) -> Done:
        """Write the files of ranges again; those of a partition are replaced at once."""
        written = 0
        with upkeep(self._top) as aside:
            self._check_same(ranges)
            for place, mine in groupby(ranges, key=lambda one: (one.topic, one.partition)):
                wanted = list(mine)
                added = {}
                for one in wanted:
                    path = self._write_range(rows, one, aside / uuid4().hex)
                    if path is not None:
                        extension = _extension(path.name)
                        name = FileName(
                            *place,
                            one.first,
                            one.end,
                            extension=extension,
                            incarnation=one.incarnation,
                        )
                        added[name.name] = path
                removed = {name.name for name in self._names() if range_of(name) in wanted}
                change(self._top, directory_of(*place), removed, added)
                written += len(added)
        return Done(files_before=len(ranges), files_after=written)

    def _check_same(self, ranges: Sequence[OffsetRange]) -> None:
        """Changed if another command has merged or deleted files of the ranges meanwhile.

        That command's file of a longer range would stay beside the new files, with the same
        records.
        """
        there = set(map(range_of, self._names()))
        for one in ranges:
            found = {
                other
                for other in there
                if is_same_log(other, one) and other.first < one.end and one.first < other.end
            }
            if found != {one}:
                raise Changed(
                    f"{one.topic}-{one.partition}: the files of offsets {one.first}-{one.end - 1} "
                    "were merged or deleted meanwhile: run the command again"
                )

    def _names(self) -> Iterator[FileName]:
        return (one.name for one in self._files())

    def _write_range(self, rows: "DataFrame", offsets: OffsetRange, aside: Path) -> Path | None:
        """Write the rows of a range into one file; None if there are none."""
        from pyspark.sql import functions as f

        mine = rows.where(
            (f.col(TOPIC) == offsets.topic)
            & (f.col(PARTITION) == offsets.partition)
            & f.col(OFFSET).between(offsets.first, offsets.end - 1)
        )
        asked = {f"_{name}" for name in self._settings.metadata}
        columns = [name for name in rows.columns if name not in METADATA or name in asked]
        ordered = mine.coalesce(1).sortWithinPartitions(OFFSET)
        selected = stored_rows(ordered.select(*map(quoted, columns)), FILES)
        writer = writer_of(selected).format(self._settings.kind).options(**self._settings.options)
        # Whatever Spark's setting says: the rows of a range are one file.
        writer.option("maxRecordsPerFile", 0).save(f"file://{aside.absolute()}")
        return _only_part(aside)

    def _files(self) -> Iterator[Known]:
        """The files in order of topic, partition and offset."""
        found = []
        for path in self._top.glob("topic=*/partition=*/*"):
            name = parse(path.relative_to(self._top).as_posix())
            if name is not None:
                status = path.stat()
                found.append(Known(name, status.st_size, status.st_mtime))
        yield from sorted(found, key=lambda one: (range_key(one.name), one.name.part or 0))


def _only_part(directory: Path) -> Path | None:
    """The file that Spark has written; None if there were no rows."""
    parts = list(directory.glob("part-*"))
    if len(parts) > 1:
        raise RuntimeError(f"Spark wrote {len(parts)} files into {directory}, and not one")
    return parts[0] if parts else None


def _extension(name: str) -> str:
    """``part-0-….c000.json.gz`` is ``json.gz``; Parquet's compression is no part of a name."""
    return name[name.index(".json") + 1 :] if ".json" in name else "parquet"


def range_key(name: FileName) -> tuple[str, int, int, int, int]:
    """The order of files: a topic that was created again is younger than the one before it."""
    return name.topic, name.partition, name.incarnation, name.first, name.end


def merges(
    files: Iterable[Known], target_bytes: int, newest: Collection[OffsetRange] = ()
) -> list[list[Known]]:
    """The files to merge: neighbors of a partition, as long as together they stay below the target.

    Files of the newest batch aren't merged.
    """
    found: list[list[Known]] = []
    for mine in _by_partition(files):
        group: list[Known] = []
        for unit in mine[:-1]:
            size_bytes = sum(one.size_bytes for one in (*group, *unit))
            is_next = bool(group) and _continues(group[-1].name, unit[0].name)
            if group and not (is_next and size_bytes <= target_bytes):
                found.append(group)
                group = []
            if range_of(unit[0].name) not in newest:
                group = [*group, *unit]
        found.append(group)
    return [group for group in found if len(group) > 1]


def expired(files: Iterable[Known], cutoff: Cutoff) -> Iterator[Known]:
    """The files to delete: from the oldest of a partition on, up to the first that is too new."""
    for mine in _by_partition(files):
        for unit in mine[:-1]:
            is_earlier = cutoff.before_ms is None and unit[0].name.incarnation < cutoff.incarnation
            if is_earlier:
                continue
            if not all(_is_old(one, cutoff) for one in unit):
                break
            yield from unit


def _is_old(one: Known, cutoff: Cutoff) -> bool:
    if cutoff.before_ms is not None:
        return one.modified_s * 1000 < cutoff.before_ms
    place = (one.name.topic, one.name.partition, one.name.incarnation)
    wanted = (cutoff.topic, cutoff.partition, cutoff.incarnation)
    return place == wanted and one.name.end <= cutoff.before_offset


def _by_partition(files: Iterable[Known]) -> Iterator[list[list[Known]]]:
    """For each partition its files by range, in order; the files of a range are its parts."""
    for _, mine in groupby(files, key=lambda one: one.name.directory):
        parts = groupby(mine, key=lambda one: range_key(one.name))
        yield [list(unit) for _, unit in parts]


def _continues(one: FileName, other: FileName) -> bool:
    same = (one.incarnation, one.extension) == (other.incarnation, other.extension)
    return same and one.end == other.first


def _merge_lines(sources: Sequence[Path], target: Path) -> None:
    """Write lines of JSON one file after the other; compressed files may follow each other too."""
    is_plain = target.suffix == ".json"
    with target.open("wb") as out:
        for path in sources:
            last = b"\n"
            with path.open("rb") as file:
                while chunk := file.read(_COPY_BYTES):
                    out.write(chunk)
                    last = chunk
            if is_plain and not last.endswith(b"\n"):
                out.write(b"\n")
