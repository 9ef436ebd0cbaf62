"""Reading topics from partition directories, without a broker: ``spark.read.format("kwire")``.

- ``options`` checks the options of a read.
- ``files``, ``partitions`` and ``planning`` find segments, bounds and tasks, without numpy.
- ``batches``, ``varints``, ``columns`` and ``reading`` decode a task's records with numpy.
- ``source`` and ``stream`` are the interface to Spark; ``filters`` turns a query's filters into
  bounds.

Example::

    from kwire.spark.segments import progress_bar, register

    register(spark)
    rows = spark.read.format("kwire").option("topics", "orders").load("/var/lib/kafka/logs")
    with progress_bar(spark):
        rows.groupBy("key").count().show()

Formats and reasons: docs/PIPELINES.md and docs/decisions/0026-reading-segments-with-numpy.md.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["KwireDataSource", "progress_bar", "register"]


def register(spark: "SparkSession") -> None:
    """Make ``format("kwire")`` known to a session, and let PySpark hand it filters if it can."""
    from kwire.spark.segments.source import KwireDataSource, can_push_filters

    spark.dataSource.register(KwireDataSource)
    if can_push_filters():
        spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")


@contextmanager
def progress_bar(spark: "SparkSession", name: str = "backfill") -> Iterator[None]:
    """Show a bar on stderr while the block runs: Spark's tasks, each a part of a segment.

    Nothing is shown without a terminal, or without the package rich.
    """
    from kwire.spark.commands.work_bar import WorkBar

    with WorkBar(name, is_on=True) as bar:
        bar.watch(spark)
        yield


def __getattr__(name: str) -> Any:
    """``KwireDataSource``, which needs PySpark, when it is asked for."""
    if name != "KwireDataSource":
        raise AttributeError(name)
    from kwire.spark.segments.source import KwireDataSource

    return KwireDataSource
