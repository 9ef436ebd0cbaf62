"""Conflicts between writers of one table: the later commit is refused, and tried again.

The table knows a batch that a sink writes again, so its rows are there only once.
"""

from collections.abc import Callable
from typing import Any

ATTEMPTS = 20
_CONFLICTS = (
    "Concurrent",
    "CONCURRENT",
    "MetadataChanged",
    "ProtocolChanged",
    "ValidationException",
    "CommitFailed",
)
"""Parts of the names of errors of Delta and Iceberg after which another attempt may succeed."""


def retried(work: Callable[[], Any]) -> Any:
    """Do something again while it meets other changes of the table; at most ATTEMPTS times."""
    for attempt in range(1, ATTEMPTS + 1):
        try:
            return work()
        except Exception as error:
            is_conflict = any(name in f"{type(error).__name__} {error}" for name in _CONFLICTS)
            if not is_conflict or attempt == ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")
