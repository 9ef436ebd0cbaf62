"""A query's filters as bounds of partitions, offsets and timestamps.

From version 4.1 on, PySpark passes filters, if ``spark.sql.python.filterPushdown.enabled`` is set.
An unknown filter gives no bounds. Spark evaluates all filters again, so bounds may be wider than
the filter, never narrower.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from kwire.spark.segments.planning import ALL, Bounds

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def bounds_of(filters: Iterable[Any]) -> Bounds:
    """The bounds that all filters together give; a filter is an object of PySpark's."""
    bounds = ALL
    for one in filters:
        attribute = getattr(one, "attribute", None)
        if attribute is None or len(attribute) != 1:
            continue
        kind, name, value = type(one).__name__, attribute[0].lower(), getattr(one, "value", None)
        values = frozenset(value if kind == "In" and value else [value])
        if kind in ("EqualTo", "EqualNullSafe", "In") and name in ("topic", "partition"):
            bounds = _among(bounds, name, values)
        elif name in ("offset", "timestamp"):
            bounds = _between(bounds, name, kind, values)
    return bounds


def _among(bounds: Bounds, name: str, values: frozenset[Any]) -> Bounds:
    if name == "topic":
        topics = values if bounds.topics is None else bounds.topics & values
        return replace(bounds, topics=topics)
    partitions = values if bounds.partitions is None else bounds.partitions & values
    return replace(bounds, partitions=partitions)


def _between(bounds: Bounds, name: str, kind: str, values: frozenset[Any]) -> Bounds:
    numbers = [_number(value) for value in values if value is not None]
    if not numbers:
        return bounds
    if name == "offset":
        first, end = bounds.first_offset, bounds.end_offset
    else:
        first, end = bounds.first_timestamp, bounds.end_timestamp
    if kind in ("EqualTo", "EqualNullSafe", "In", "GreaterThan", "GreaterThanOrEqual"):
        first = max(first, min(numbers))
    if kind in ("EqualTo", "EqualNullSafe", "In", "LessThan", "LessThanOrEqual"):
        end = min(end, max(numbers) + 1)
    if name == "offset":
        return replace(bounds, first_offset=first, end_offset=end)
    return replace(bounds, first_timestamp=first, end_timestamp=end)


def _number(value: Any) -> int:
    """An offset, or a time as whole milliseconds, rounded down."""
    if isinstance(value, datetime):
        return (value.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1)
    return int(value)
