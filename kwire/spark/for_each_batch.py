"""A function for ``foreachBatch``, to use a sink without a pipeline in a streaming query.

::

    sink = make_sink(SinkSettings("delta", "/data/orders"), source, "orders")
    writer = records.writeStream.option("checkpointLocation", "/data/checkpoint")
    writer.foreachBatch(write_into(sink, "/data/checkpoint", "orders", rows)).start()

Rules:

- A sink recognizes a batch by the checkpoint's id, the batch's number and its offsets, which Spark
  has written to the checkpoint before the batch runs. So the rows of a batch that runs again are
  there only once.
- The query has one source, Spark's connector ``kafka``.
- The other work of a pipeline isn't done: lost data isn't detected, and ``rows`` has to handle dead
  letters.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.spark.batch import Batch
from kwire.spark.checkpoint import Checkpoint
from kwire.spark.sink import Sink
from kwire.spark.storage import storage_at

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_into(
    sink: Sink, checkpoint: str, name: str, rows: "Callable[[DataFrame], DataFrame]"
) -> "Callable[[DataFrame, int], None]":
    """The function for ``foreachBatch`` that writes each batch into a sink exactly once.

    ``checkpoint`` is the query's ``checkpointLocation``, ``name`` the name by which a sink may
    identify the writer. ``rows`` makes the sink's rows of the connector's records, with the columns
    of ``kwire.spark.rows`` that the sink needs: its kind's documentation says which.
    """
    sink.check()
    opened: list[Checkpoint] = []

    def write(records: "DataFrame", batch_id: int) -> None:
        spark = records.sparkSession
        if not opened:
            opened.append(Checkpoint(storage_at(checkpoint, spark)))
            sink.open(spark)
        [found] = opened
        batch = Batch(name, found.query_id(), batch_id, tuple(found.ranges(batch_id)))
        sink.write(rows(records), batch)

    return write
