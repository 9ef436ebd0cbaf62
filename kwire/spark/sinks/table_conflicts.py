"""Conflicts between writers of one table: the later commit is refused, and tried again.

The table knows a batch that a sink writes again, so its rows are there only once.

A change of a table's columns may be refused for good: a constraint needs the column as it is, the
table's version has no such type, somebody else decides about its columns. Then the table's answer
is the reason of dead letters. All other failures of a change may pass, and end the run.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ATTEMPTS = 20
_CONFLICTS = (
    "Concurrent",
    "CONCURRENT",
    "concurrently modified",
    "MetadataChanged",
    "ProtocolChanged",
    "ValidationException",
    "CommitFailed",
)
"""Parts of errors of Delta and Iceberg, names or texts, after which another attempt may succeed."""

_BY_ROW = "USER_RAISED_EXCEPTION"
"""In Spark's errors of ``raise_error``, whose text may have the names of types and columns."""

_REFUSALS = (
    "AnalysisException",
    "ParseException",
    "UnsupportedOperationException",
    "IllegalArgumentException",
    "ValidationException",
    "ForbiddenException",
)
"""The ends of the names of errors, of Python or of Java, that say no for good."""

_INVALID = "Invalid schema"
"""How Iceberg begins if a version of its tables hasn't the type; the error is one of any kind."""

ANSWER_CHARS = 200
"""How much of a table's answer is told."""


def altered(spark: "SparkSession", statement: str) -> str:
    """Change a table; "" if that was done, or the table's answer if it refuses the change."""
    try:
        retried(lambda: spark.sql(statement))
    except Exception as error:
        inner: Any = error
        java = getattr(inner, "java_exception", None)
        kind = type(error).__name__ if java is None else str(java.getClass().getName())
        text = str(getattr(inner, "desc", None) or getattr(inner, "_desc", None) or "")
        text = text or (str(java.getMessage()) if java is not None else str(error))
        if not (kind.endswith(_REFUSALS) or text.startswith(_INVALID)):
            raise
        return " ".join(text.split())[:ANSWER_CHARS] or kind
    return ""


def retried(work: Callable[[], Any]) -> Any:
    """Do something again while it meets other changes of the table; at most ATTEMPTS times."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return work()
        except Exception as error:
            told = f"{type(error).__name__} {error}"
            is_conflict = _BY_ROW not in told and any(name in told for name in _CONFLICTS)
            if not is_conflict or attempt == ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")
