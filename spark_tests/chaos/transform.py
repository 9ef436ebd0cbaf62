"""A transform that changes nothing, but needs Python workers: so there are some to be killed."""

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame


def through_python(rows: DataFrame) -> DataFrame:
    """The same rows, after a way through Python."""

    # A function of a module would be looked for in that module, which executors don't have.
    def same(batches: Iterator[Any]) -> Iterator[Any]:
        yield from batches

    return rows.mapInArrow(same, rows.schema)
