"""``spark.readStream.format("kwire")``: a micro-batch stream over segments.

PySpark 4.2 and newer calls ``latestOffset(start, limit)`` for the end of the next batch. Older
versions call ``latestOffset()``, so that reader has to know the end of the last batch. It learns
this from the calls of ``initialOffset`` and ``partitions``, because Spark plans the last batch of a
checkpoint again when a query restarts.

With ``Trigger.AvailableNow`` PySpark before 4.2 asks only once: with a limit, a run is one batch.
"""

import logging

from kwire.spark.segments.options import Options
from kwire.spark.segments.progress import Progress
from kwire.spark.segments.stream_base import SegmentsStream

log = logging.getLogger(__name__)


class UnaskedStream(SegmentsStream):
    """For PySpark before 4.2."""

    def latestOffset(self) -> Progress:
        """Where the batch after the last one ends."""
        start = self.initialOffset() if self.position is None else self.position
        return self.follower.latest(
            start,
            max_records=self.options.max_records_per_trigger,
            max_bytes=self.options.max_bytes_per_trigger,
        )


def stream_reader(options: Options) -> SegmentsStream:
    """The reader for this version of PySpark."""
    try:
        from kwire.spark.segments.limited_stream import LimitedStream
    except ImportError:
        limit = options.max_records_per_trigger or options.max_bytes_per_trigger
        if limit:
            log.warning(
                "this PySpark is older than 4.2: with the trigger availableNow and a limit of"
                " %d a run is one batch",
                limit,
            )
        return UnaskedStream(options)
    return LimitedStream(options)
