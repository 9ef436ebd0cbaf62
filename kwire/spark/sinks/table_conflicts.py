"""Writers of one table meet: the later one's commit is refused, and done again.

A batch that a sink writes again is known to the table, so it is there once all the same.
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
"""Parts of the names of the errors of Delta and Iceberg that a later attempt may not meet."""


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
