"""Values of partitions and keys that a table can't keep: such a record is a dead letter.

A table has the value of ``partition_by`` in the names of directories, and Delta as a text in its
log. What comes back from there isn't always what went in:

===============================  =================================  ===========================
value                            Delta                              Iceberg
===============================  =================================  ===========================
an empty text                    NULL, by Delta's protocol          stays
``__HIVE_DEFAULT_PARTITION__``   NULL                               stays
a text with a zero byte          the write fails, at each start     stays
a text longer than a name        the write fails, at each start     the write fails
a date before 1 or after 9999    another date, or the read fails    stays
bytes                            other bytes, if they are no UTF-8  stays; long ones fail
===============================  =================================  ===========================

So records with such values get an error, as those that can't be decoded. A column of bytes is
refused as a whole in Delta. A text's length is that of its directory's name with everything escaped
that any writer escapes: the two kinds of Delta sinks have the same dead letters.

A table of upserts has no row without a key. With ``null_keys = "dead letter"``, which is what a
pipeline with dead letters and Debezium's events get without the setting, a record without one has
an error too.

With transforms the values are known only after them. So the batch is decoded and transformed once
more before it is written, to find the records whose rows can't be kept.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from kwire.schemas.undecodable import VALUE
from kwire.spark import rows as names
from kwire.spark.changes import is_of_a_row
from kwire.spark.column_names import DELTA, ICEBERG
from kwire.spark.decode.same_names import keys_of
from kwire.spark.rows import KEY, METADATA, OFFSET, PARTITION, TOPIC
from kwire.spark.settings import PipelineSettings, SinkSettings, WrongSetting
from kwire.spark.split import Runs, runs_by_reason
from kwire.spark.sql import quoted
from kwire.spark.tombstones import DEAD_LETTER

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

    from kwire.spark.decode.decoding import Decoding

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
"""The directory of rows without a value, as Hive has named it."""

MAX_NAME_BYTES = 255
"""How long the name of a directory may be on local disks."""


def is_delta(sink: SinkSettings) -> bool:
    """Whether a sink's table is one of Delta."""
    return sink.kind != "iceberg" and sink.options.get("format", "delta") == "delta"


def columns_of(sink: SinkSettings) -> Sequence[str]:
    """The columns by which a table is partitioned, and of Iceberg also transforms of columns."""
    found: Sequence[str] = sink.options.get("partition_by", ())
    return found


def part_of(settings: PipelineSettings) -> SinkSettings | None:
    """What this module needs to know of a table; None if the table keeps every value."""
    given = settings.sink.options
    has_letters = settings.dead_letters is not None or settings.decode.format == "debezium"
    null_keys = given.get("null_keys", DEAD_LETTER if has_letters else "stop")
    needed = ("partition_by", "format", "key")
    kept = {name: value for name, value in given.items() if name in needed}
    found = SinkSettings(settings.sink.kind, options={**kept, "null_keys": null_keys})
    return found if columns_of(found) or keys_of_rows(found) else None


def keys_of_rows(part: SinkSettings) -> Sequence[str]:
    """The columns without whose values a record is a dead letter."""
    if part.kind != "upsert" or part.options["null_keys"] != DEAD_LETTER:
        return ()
    found: Sequence[str] = part.options.get("key", [KEY])
    return found


def checked(decode: "Decoding", part: SinkSettings) -> "Decoding":
    """The same decoding; a record with a value that the table can't keep has an error."""
    from pyspark.sql import functions as f

    def decoded(given: "DataFrame", has_reasons: bool) -> "DataFrame":
        found = decode(given, has_reasons)
        row = f.col(names.ROW)
        own = {one.name: f.col(one.name) for one in found.schema if one.name in METADATA}
        value: Any = found.schema[names.ROW].dataType
        columns = [
            *((one, own[one.name]) for one in found.schema if one.name in own),
            *((one, row[one.name]) for one in value),
        ]
        reason = _reason(columns, part)
        if reason is None:
            return found
        kept = {names.ROW: f.when(reason.isNull(), row)}
        return found.withColumns({names.ERROR: f.coalesce(names.ERROR, reason), **kept})

    return decoded


def unfit_records(rows: "DataFrame", part: SinkSettings) -> dict[str, Runs]:
    """The records whose rows, after the transforms, a table can't keep; by reason.

    RuntimeError if a transform has dropped the place of such a row's record.
    """
    from pyspark.sql import functions as f

    reason = _reason([(one, f.col(quoted(one.name))) for one in rows.schema], part)
    if reason is None:
        return {}
    unfit = rows.where(reason.isNotNull())
    if not {TOPIC, PARTITION, OFFSET} <= set(rows.columns):
        if found := unfit.select(reason).take(1):
            dropped = f"{TOPIC}, {PARTITION} or {OFFSET}"
            raise RuntimeError(f"{found[0][0]}, and a transform has dropped {dropped}")
        return {}
    return runs_by_reason(unfit, reason)


def _reason(columns: "Sequence[tuple[Any, Column]]", part: SinkSettings) -> "Column | None":
    """The first reason why the table can't keep a row, null if it can; None if it always can."""
    from pyspark.sql import functions as f

    found = None
    for is_unfit, why in _conditions(columns, part):
        text = f.lit(f"{VALUE}column {why}")
        found = f.when(is_unfit, text) if found is None else found.when(is_unfit, text)
    return found


def _conditions(
    columns: "Sequence[tuple[Any, Column]]", part: SinkSettings
) -> "Iterator[tuple[Column, str]]":
    """Conditions on rows that the table can't keep, and what to tell of them."""
    from pyspark.sql import functions as f

    by_name = {field.name: column for field, column in columns}
    has_key = is_of_a_row() if names.CHANGE in by_name else f.lit(True)
    for name in keys_of_rows(part):
        if name in by_name:
            yield has_key & by_name[name].isNull(), f"{name} has no value, and it is in the key"
    wanted = [(one, keys_of(one)) for one in columns_of(part)]
    for field, column in columns:
        for name, keys in wanted:
            if keys & keys_of(field.name):
                for is_unfit, why in _unfit(name, column, field.dataType, part):
                    yield is_unfit, f"{name} {why}"


def _unfit(
    name: str, column: "Column", data_type: "DataType", sink: SinkSettings
) -> "Iterator[tuple[Column, str]]":
    """Conditions on a column's values that can't be kept, and what to tell of them."""
    from pyspark.sql import functions as f
    from pyspark.sql.types import BinaryType, DateType, StringType, TimestampNTZType, TimestampType

    text = column
    if isinstance(data_type, BinaryType):
        if is_delta(sink):
            allowed = (
                'no bytes, which Delta would make a text of; [decode] key = "text" makes it one'
            )
            raise WrongSetting("sink.partition_by", name, allowed)
        text = f.base64(column)
    if isinstance(data_type, StringType) and is_delta(sink):
        same = "and a Delta table partitioned by it would have NULL instead"
        yield column == "", f"is an empty text, {same}"
        yield column == NO_VALUE, f"is {NO_VALUE}, {same}"
        yield column.contains("\0"), "has a zero byte, which no directory's name can have"
    if isinstance(data_type, StringType | BinaryType):
        rule = DELTA if is_delta(sink) else ICEBERG
        directory = f.url_encode(f.concat(f.lit(f"{rule.stored(name)}="), text))
        escaped = f.regexp_replace(directory, "[+*]", "%20")  # as long as %2A, deltalake's *
        is_long = f.octet_length(escaped) > MAX_NAME_BYTES
        yield is_long, "is too long for the name of a directory, and the table is partitioned by it"
    if isinstance(data_type, DateType | TimestampType | TimestampNTZType) and is_delta(sink):
        year = f.year(column)
        yield (year < 1) | (year > 9999), "isn't in the years 1 to 9999 of Delta's partitions"
