"""A task as Spark sends it from the driver to an executor, and the executor's work on it."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql.datasource import InputPartition

from kwire.spark.segments.options import Options
from kwire.spark.segments.planning import ALL, Bounds, Task


class TaskPartition(InputPartition):  # type: ignore[misc]
    """A task, as Spark sends it to an executor."""

    def __init__(self, task: Task | None) -> None:
        super().__init__(task)


def read_partition(partition: Any, options: Options, bounds: Bounds = ALL) -> Iterator[Any]:
    """The RecordBatches of a partition that was planned; on an executor."""
    from kwire.spark.segments.reading import read_task

    # Spark makes one partition without a value if a plan has none.
    return iter(()) if partition.value is None else read_task(partition.value, options, bounds)
