"""What a table's types make of rows, remembered: a table isn't asked for every batch.

Rules:

- The answer to the last columns is kept, whether all rows fit or some columns are misfits.
- Other columns are asked for anew. So are the same ones after ``ASK_AGAIN_S``: others may have
  changed the table, so that it takes what it didn't take before.
"""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from kwire.spark.sink import FitsTable
from kwire.spark.sinks.misfits import Misfit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

ASK_AGAIN_S = 60.0


class Remembered:
    """The newest answer of a table."""

    def __init__(self, sink: FitsTable, now_s: Callable[[], float] = time.monotonic) -> None:
        self._sink = sink
        self._now_s = now_s
        self._schema: StructType | None = None
        self._misfits: list[Misfit] = []
        self._until_s = 0.0

    def misfits(self, spark: "SparkSession", schema: "StructType") -> list[Misfit]:
        """As ``FitsTable.fit``."""
        now_s = self._now_s()
        if schema != self._schema or now_s >= self._until_s:
            self._misfits = self._sink.fit(spark, schema)
            self._schema, self._until_s = schema, now_s + ASK_AGAIN_S
        return self._misfits
