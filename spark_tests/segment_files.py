"""Segments that a test writes itself, and what a read of them gives; no broker, no Spark."""

from pathlib import Path
from typing import Any

from kwire.record.records import BatchBuilder
from kwire.spark.segments.options import Options, read_options
from kwire.spark.segments.partitions import find_partitions
from kwire.spark.segments.planning import Bounds, Task, ranges, tasks
from kwire.spark.segments.reading import read_task

Rows = list[tuple[Any, ...]]


def write(directory: Path, batches: list[bytes | bytearray]) -> Path:
    """A partition's directory with one segment."""
    directory.mkdir()
    (directory / f"{0:020d}.log").write_bytes(b"".join(batches))
    return directory


def rows(options: Options) -> Rows:
    """What a read gives, ordered by offset."""
    found = ranges(find_partitions(options), options)
    return sorted(taken(tasks(found, options), options))


def taken(made: list[Task], options: Options, bounds: Bounds = Bounds()) -> Rows:  # noqa: B008
    """The rows of tasks, as kwire's reader has them."""
    return [
        (
            row["offset"],
            round(row["timestamp"].timestamp() * 1000),
            row["key"],
            row["value"],
            tuple((header["key"], header["value"]) for header in row["headers"] or ()),
        )
        for task in made
        for batch in read_task(task, options, bounds)
        for row in batch.to_pylist()
    ]


def opened(directory: Path, **given: str) -> Options:
    """Options for a directory."""
    return read_options({"path": str(directory), "includeHeaders": "true", **given})


def simple(base: int, count: int, **build: Any) -> bytearray:
    """A batch of small records."""
    builder = BatchBuilder(base)
    for n in range(count):
        builder.add(1_700_000_000_000 + base + n, b"k", b"value-%d" % (base + n))
    return builder.build(**build)


def segmented(tmp_path: Path) -> Path:
    """A partition of three segments of ten records each, below a checkpoint."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "replication-offset-checkpoint").write_text("0\n1\nt 0 30\n")
    directory = write(data / "t-0", [simple(0, 10)])
    for base in (10, 20):
        (directory / f"{base:020d}.log").write_bytes(simple(base, 10))
    return directory


def planned(directory: Path, **given: str) -> tuple[list[Task], Options]:
    """The tasks of a read."""
    options = opened(directory, **given)
    return tasks(ranges(find_partitions(options), options), options), options


def offsets(made: list[Task], options: Options) -> list[int]:
    """The offsets that tasks give, in their order."""
    return [row[0] for row in taken(made, options)]
