"""The part of a stream over segments that is the same in every version of PySpark."""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader

from kwire.spark.segments.carried import TaskPartition, read_partition
from kwire.spark.segments.options import Options
from kwire.spark.segments.progress import Follower, Progress


class SegmentsStream(DataSourceStreamReader):  # type: ignore[misc]
    """A stream without the method that decides where a batch ends."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.follower = Follower(options)
        self.position: Progress | None = None

    def initialOffset(self) -> Progress:
        """Where a new query starts."""
        self.position = self.follower.initial()
        return self.position

    def partitions(self, start: Progress, end: Progress) -> Sequence[Any]:
        """The tasks of a batch."""
        self.position = end
        return [TaskPartition(task) for task in self.follower.tasks(start, end)]

    def read(self, partition: Any) -> Iterator[Any]:
        """The rows of a task."""
        return read_partition(partition, self.options)
