"""What becomes of tombstones, the records without a value: ``[sink] tombstones``.

- ``skip``: they are left out before transforms see them. ``verify`` misses no row for them.
- ``row``: a row whose value's columns are null, also those that the schema declares NOT NULL.
- ``dead letter``: they go where records go that can't be decoded.

The default is ``skip`` for files and tables that get a row for each record. It is ``row`` if
``[sink] metadata`` asks for the column that marks tombstones, and for the sinks whose business
tombstones are: in a topic they delete a key at its readers, in a table of upserts its row.
"""

from typing import TYPE_CHECKING

from kwire.schemas.undecodable import VALUE
from kwire.spark import rows as names
from kwire.spark.settings import SinkSettings

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SKIP, ROW, DEAD_LETTER = WAYS = ("skip", "row", "dead letter")
_REASON = f"{VALUE}it is a tombstone: it has no value"


def way_of(sink: SinkSettings) -> str:
    """What the sink's setting, or its default, does with tombstones."""
    if sink.tombstones:
        return sink.tombstones
    asks = "tombstone" in sink.metadata or sink.kind in ("topic", "upsert")
    return ROW if asks else SKIP


def treated(decoded: "DataFrame", way: str) -> "DataFrame":
    """Decoded rows without tombstones, or with an error for each, or as they are."""
    from pyspark.sql import functions as f

    if way == SKIP:
        return decoded.where(~f.col(names.TOMBSTONE))
    if way == DEAD_LETTER:
        kept = [one for one in decoded.columns if one != names.ERROR]
        return decoded.select(*kept, error_by(way).alias(names.ERROR))
    return decoded


def error_by(way: str) -> "Column":
    """The error of a decoded row, null for one that is no dead letter."""
    from pyspark.sql import functions as f

    error, is_tombstone = f.col(names.ERROR), f.col(names.TOMBSTONE)
    if way == SKIP:
        return f.when(~is_tombstone, error)
    if way == DEAD_LETTER:
        return f.coalesce(error, f.when(is_tombstone, f.lit(_REASON)))
    return error
