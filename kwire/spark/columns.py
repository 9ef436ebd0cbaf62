"""Columns by name, made once.

Every part of a column's expression is a call into Spark's JVM. A batch uses some fifty columns, and
no task runs while they are made. If each batch made them anew, it would take a tenth of a second
longer.
"""

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column


@lru_cache(maxsize=512)
def column(name: str) -> "Column":
    """The column of a name, as ``functions.col`` has it."""
    from pyspark.sql import functions as f

    return f.col(name)


def columns(*of: str) -> "list[Column]":
    """The columns of several names."""
    return [column(one) for one in of]
