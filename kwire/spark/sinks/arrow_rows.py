"""Batches that the driver collects as Arrow, for the sinks that write without Java."""

from collections.abc import Iterator
from functools import reduce
from typing import TYPE_CHECKING, Any

from kwire.spark.batch import OffsetRange
from kwire.spark.column_names import INCARNATION
from kwire.spark.rows import OFFSET, PARTITION, TOPIC
from kwire.spark.sink import Held

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

MAX_ROWS = 1_000_000
_CHUNK = 100_000


class TooManyRows(Exception):
    """A batch has more rows than the driver may collect."""


def collect(rows: "DataFrame", max_rows: int) -> Any:
    """The rows as an Arrow table; TooManyRows beyond the limit."""
    import pyarrow as pa

    table = rows.limit(max_rows + 1).toArrow()
    if table.num_rows > max_rows:
        raise TooManyRows(
            f"a batch has more than sink.max_rows = {max_rows} rows, which is what the driver may "
            "collect: make batches smaller with source.max_offsets_per_trigger, raise the limit, "
            "or use a kind that writes from the executors"
        )
    return table.cast(pa.schema([_field(one) for one in table.schema]))


def _field(given: Any) -> Any:
    """A field as tables have it.

    Spark names the session's time zone; tables keep instants in UTC. Columns of a table may be
    null, as Spark's own writers have it, within others too: earlier rows don't have a new column.
    """
    import pyarrow as pa

    return pa.field(given.name, _type(given.type))


def _type(given: Any) -> Any:
    import pyarrow as pa
    from pyarrow import types

    if types.is_timestamp(given) and given.tz:
        return pa.timestamp("us", "UTC")
    if types.is_struct(given):
        return pa.struct([_field(one) for one in given])
    if types.is_list(given):
        return pa.list_(_field(given.value_field))
    if types.is_map(given):
        return pa.map_(_type(given.key_type), _field(given.item_field))
    return given


def required_as(found: Any, of: "StructType") -> Any:
    """The rows with the columns that a table requires as required ones, at any depth.

    Else the writers, which add columns, would make such a column of somebody else's table optional.
    """
    import pyarrow as pa

    types = {one.name: one for one in of.fields}
    return found.cast(pa.schema([_required(one, types.get(one.name)) for one in found.schema]))


def _required(given: Any, of: Any) -> Any:
    import pyarrow as pa
    from pyarrow import types

    if of is None:
        return given
    inner, nullable = given.type, given.nullable and of.nullable
    if types.is_struct(inner) and hasattr(of.dataType, "fields"):
        fields = {one.name: one for one in of.dataType.fields}
        inner = pa.struct([_required(one, fields.get(one.name)) for one in inner])
    return pa.field(given.name, inner, nullable=nullable)


def held_in_arrow(table: Any) -> Iterator[Held]:
    """The offsets in a table with topic, partition and offset, as ``held_in`` gives them."""
    import pyarrow as pa
    import pyarrow.compute as pc

    where = [TOPIC, PARTITION, INCARNATION]
    table = table.filter(pc.is_valid(table[OFFSET]))
    if INCARNATION in table.column_names:
        numbers = pc.fill_null(table[INCARNATION], 0)
        table = table.drop_columns([INCARNATION]).append_column(INCARNATION, numbers)
    else:
        table = table.append_column(INCARNATION, pa.repeat(pa.scalar(0), table.num_rows))
    places = table.select(where).group_by(where).aggregate([]).to_pylist()
    for place in sorted(places, key=lambda one: tuple(one[name] for name in where)):
        same = (pc.equal(table[name], place[name]) for name in where)
        mine = table.filter(reduce(pc.and_, same))
        offsets = mine[OFFSET].combine_chunks().sort()
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        span = OffsetRange(place[TOPIC], place[PARTITION], first, last + 1, place[INCARNATION])
        yield Held(span, _in_chunks(offsets), len(offsets))


def _in_chunks(offsets: Any) -> Iterator[int]:
    for start in range(0, len(offsets), _CHUNK):
        yield from offsets.slice(start, _CHUNK).to_pylist()
