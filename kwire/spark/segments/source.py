"""The data source as Spark sees it; registered by ``kwire.spark.segments.register``.

The features of PySpark's versions: in 4.0, a reader may yield Arrow's RecordBatches, and a stream
may plan tasks. From 4.1 on a reader gets the query's filters, from 4.2 on a stream gets the place
where a batch starts and the limit of the trigger. No version tells a reader which columns a query
needs. The option ``columns`` does that.

Spark asks for the schema, the plan and the rows in different processes, for every query: each
imports only what it needs.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSource, DataSourceReader

from kwire.spark.segments.options import Options, read_options


def can_push_filters() -> bool:
    """Whether this PySpark can pass filters to a data source, if its setting allows that."""
    return hasattr(DataSourceReader, "pushFilters")


class PushFilters:
    """The method ``pushFilters`` of a reader, which PySpark refuses while its setting is off.

    PySpark treats a reader as one without pushdown if ``pushFilters.__func__`` is the base class's.
    So a query works with the setting and without it, and Spark calls this only with it.
    """

    __func__ = staticmethod(getattr(DataSourceReader, "pushFilters", len))

    def __init__(self, reader: "SegmentsReader") -> None:
        self._reader = reader

    def __call__(self, filters: list[Any]) -> Iterable[Any]:
        """Narrow the read; Spark still evaluates all filters."""
        from kwire.spark.segments.filters import bounds_of

        self._reader.bounds = bounds_of(filters)
        return filters


class SegmentsReader(DataSourceReader):  # type: ignore[misc]
    """A batch read."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.bounds: Any = None
        self.pushFilters = PushFilters(self)

    def partitions(self) -> Sequence[Any]:
        """The tasks."""
        from kwire.spark.segments.carried import TaskPartition
        from kwire.spark.segments.partitions import check_known, find_partitions
        from kwire.spark.segments.planning import ALL, narrowed, ranges, tasks

        bounds = self.bounds or ALL
        found = [part for part in find_partitions(self.options) if bounds.allow(part)]
        check_known(found, ignored=self.options.ignores_high_watermark)
        covered = narrowed(ranges(found, self.options), bounds)
        return [TaskPartition(task) for task in tasks(covered, self.options, bounds)]

    def read(self, partition: Any) -> Iterator[Any]:
        """The rows of a task."""
        from kwire.spark.segments.carried import read_partition
        from kwire.spark.segments.planning import ALL

        return read_partition(partition, self.options, self.bounds or ALL)


class KwireDataSource(DataSource):  # type: ignore[misc]
    """``spark.read.format("kwire")`` and ``spark.readStream.format("kwire")``."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "kwire"

    def schema(self) -> str:
        """The columns that the options ask for; raises WrongSetting for any wrong option."""
        return read_options(self.options, is_stream=None).schema

    def reader(self, schema: Any) -> SegmentsReader:
        """A batch read."""
        return SegmentsReader(read_options(self.options))

    def streamReader(self, schema: Any) -> Any:
        """A stream."""
        from kwire.spark.segments.stream import stream_reader

        return stream_reader(read_options(self.options, is_stream=True))
