"""A task as Spark carries it from the driver to an executor, and what the executor does with it."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition

from kwire.spark.segments.options import Options
from kwire.spark.segments.planning import ALL, Bounds, Task


class TaskPartition(InputPartition):  # type: ignore[misc]
    """A task, as Spark carries it to an executor."""

    def __init__(self, task: Task | None) -> None:
        super().__init__(task)


def read_partition(partition: Any, options: Options, bounds: Bounds = ALL) -> Iterator[Any]:
    """The RecordBatches of a partition that was planned; on an executor."""
    from kwire.spark.segments.reading import read_task

    # Spark makes one partition without a value where a plan has none.
    return iter(()) if partition.value is None else read_task(partition.value, options, bounds)
