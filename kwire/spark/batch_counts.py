"""The counts of a batch: its records, its dead letters by reason, and the bytes of its values."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kwire.spark import rows as names
from kwire.spark.decode.row_converter import is_tombstone
from kwire.spark.tombstones import error_by

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Observation, SparkSession

COUNTS_TIMEOUT_S = 10.0
"""How long Spark may take to report the counts after the sink has written."""

_MOMENT_MS = 20
MOST_REASONS = 50
OTHER_REASONS = "others"
_REASON_CHARS = 120
_VALUES = "[0-9]+|'[^']*'|\"[^\"]*\""


@dataclass(frozen=True, slots=True)
class Counts:
    """The counts of a batch: its records, its dead letters, and the bytes of values."""

    records: int
    dead_letters: int
    value_bytes: int
    reasons: Mapping[str, int] = field(default_factory=dict)
    """How many dead letters have each reason, where dead letters are kept (``reasons_of``)."""


@lru_cache(maxsize=4)
def count_of(name: str) -> "Column":
    """How many rows there are, as an observed column of a name."""
    from pyspark.sql import functions as f

    return f.count(f.lit(1)).alias(name)


@lru_cache(maxsize=2)
def bytes_of(value: str) -> "Column":
    """How many bytes the values of a column have, as an observed column."""
    from pyspark.sql import functions as f

    return f.coalesce(f.sum(f.octet_length(value)), f.lit(0)).alias("value_bytes")


def skipped_of(source: "DataFrame", skips: bool) -> "Column":
    """How many tombstones are left out, as an observed column."""
    from pyspark.sql import functions as f

    return f.count_if(is_tombstone(source.columns) & f.lit(skips)).alias("skipped")


def counts_of(spark: "SparkSession", read: "Observation", good: "Observation") -> Counts | None:
    """The counts; None if the sink's action hasn't reported them in time, or has read no rows.

    An action that needs no rows skips the counting and reports zeros. With these counts, dead
    letters would be lost. A sink that has a batch already runs no action, and of a query that is
    text of SQL (``spark.sql``) Spark finds the counts only if something is selected from it.
    """
    deadline_s = time.monotonic() + COUNTS_TIMEOUT_S
    inner: Any = (read._jo, good._jo)
    has_told_all = False
    while not all(one.future().isCompleted() for one in inner):
        if has_told_all or time.monotonic() > deadline_s:
            return None
        has_told_all = _has_told_all(spark)
    # ``Observation.get`` takes twenty calls into the JVM: it asks until there is no next one.
    found, rows = (one.getAsJava() for one in inner)
    records = int(found["records"])
    if not records:
        return None
    dead_letters = records - int(found["skipped"]) - int(rows["rows"])
    return Counts(records, dead_letters, int(found["value_bytes"]))


def _has_told_all(spark: Any) -> bool:
    """Whether Spark has told its listeners all that has happened, the ends of actions too."""
    try:
        spark._jsparkSession.sparkContext().listenerBus().waitUntilEmpty(_MOMENT_MS)
    except Exception:  # Java's TimeoutException: there is something left to tell
        return False
    return True


def count_again(decoded: "DataFrame", tombstones: str) -> Counts:
    """The same counts in a pass of their own."""
    from pyspark.sql import functions as f

    value_bytes = f.coalesce(f.sum(f.length(names.VALUE)), f.lit(0))
    dead_letters = f.count(error_by(tombstones))
    [row] = decoded.agg(f.count(f.lit(1)), dead_letters, value_bytes).collect()
    return Counts(*row)


def reasons_of(dead: "DataFrame") -> dict[str, int]:
    """How many dead letters have each reason: the most frequent ones, and the rest together.

    A reason is the begin of an error, without the numbers and the quoted values in it: it has to be
    the same for many records.
    """
    from pyspark.sql import functions as f

    short = f.substring(names.ERROR, 1, _REASON_CHARS)
    reason = f.regexp_replace(short, _VALUES, "…").alias("reason")
    # One task counts them, without a shuffle: they are cached.
    counted = dead.select(reason).coalesce(1).groupBy("reason").count()
    found = counted.orderBy(f.desc("count"), "reason").collect()
    reasons = {str(row["reason"]): int(row["count"]) for row in found[:MOST_REASONS]}
    if rest := sum(int(row["count"]) for row in found[MOST_REASONS:]):
        reasons[OTHER_REASONS] = rest
    return reasons
