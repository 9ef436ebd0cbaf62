"""The stream for PySpark 4.2 and newer, which says where a batch starts and how large it may be."""

from typing import Any

from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadMaxBytes,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from kwire.spark.segments.options import Options
from kwire.spark.segments.progress import Progress
from kwire.spark.segments.stream_base import SegmentsStream


class LimitedStream(SegmentsStream, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """A stream whose batches Spark limits."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self.target: Progress | None = None

    def getDefaultReadLimit(self) -> Any:
        """The limit of the options."""
        if self.options.max_records_per_trigger:
            return ReadMaxRows(self.options.max_records_per_trigger)
        if self.options.max_bytes_per_trigger:
            return ReadMaxBytes(self.options.max_bytes_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Remember the present end offsets."""
        self.target = self.follower.latest({})

    def latestOffset(self, start: Progress, limit: Any) -> Progress:
        """Where the batch that begins at ``start`` ends."""
        return self.follower.latest(
            start,
            max_records=limit.max_rows if isinstance(limit, ReadMaxRows) else 0,
            max_bytes=limit.max_bytes if isinstance(limit, ReadMaxBytes) else 0,
            target=self.target,
        )

    def reportLatestOffset(self) -> Progress:
        """The present end offsets, for the query's progress."""
        return self.follower.latest({})
