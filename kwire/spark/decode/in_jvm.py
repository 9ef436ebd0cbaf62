"""Decoding of JSON, CSV, text and bytes by Spark's own expressions: no record leaves the JVM.

Rules:

- ``from_json`` and ``from_csv`` are evaluated once for each record. Spark's optimizer copies a
  projection's expressions into the filters above it (rows without an error, dead letters), which
  would parse each value again. It doesn't copy expressions that aren't deterministic. So ``_once``
  makes an expression depend on the partition's number.
- A JSON value is parsed as ``{"r":VALUE,"e":true}``: Spark ignores text after a complete object,
  and so would accept ``{"a":1}{"a":2}``. Within another object such text is an error. A value that
  closes that object itself, such as ``{"a":1}}``, leaves no ``e`` in it. Only a value that
  continues with names of its own, such as ``{"a":1},"b":2``, isn't noticed.
- The reason of an error is computed only for wrong values. If no reasons are wanted, a value that
  isn't text is parsed as ``_NO_JSON``. So the value isn't needed after ``from_json``, and Spark
  doesn't copy it.
- ``from_json`` gets a column (``_TEXT``), because Spark generates no code for ``from_json``, nor
  for expressions within it.
- What isn't JSON by its standard (single quotes, NaN, comments, …) is refused, although Spark's
  parsers take some of it.
- A property with several spellings is parsed as several fields, which then become one column
  (``spellings``).
- A number that Spark would change before it becomes a text is read a second time (``exact_text``).
"""

import json
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from kwire.schemas.undecodable import VALUE
from kwire.schemas.wire_format import HEADER_BYTES
from kwire.spark import rows
from kwire.spark.columns import columns
from kwire.spark.decode.exact_text import marked_numbers, may_differ, texts_of, with_exact_texts
from kwire.spark.decode.options import Options
from kwire.spark.decode.spark_types import SparkType, field, kind_of, loosened, struct, text_of
from kwire.spark.decode.spellings import folded, has_spellings, spread
from kwire.spark.sql import columns_text

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    _Steps = tuple[tuple[Column, ...], ...]
    """Selections of columns, to be made one after the other."""

_PARSED = "_kwire_parsed"
_CORRUPT = "_kwire_corrupt"
_TEXT = "_kwire_text"
_EXACT = "_kwire_exact"
_NO_JSON = "!"
_STRICT = dict.fromkeys(("allowSingleQuotes", "allowNonNumericNumbers"), "false")
"""What Spark takes for JSON by default, and isn't. It refuses the rest by itself."""
_TEXT_OF_JSON = r'"(?:[^"\\]++|\\.)*+"'
_MORE = f"{VALUE}it is no JSON: more follows after its first value"
_CUT = f"{VALUE}it is no JSON: it ends before an object, an array or a text in it does"
_KEPT = (
    *(rows.TOPIC, rows.PARTITION, rows.OFFSET, rows.TIMESTAMP),
    *(rows.KEY, rows.VALUE, rows.HEADERS, rows.TOMBSTONE),
)
_MAX_NAMED_COLUMNS = 100
"""For wider tables, the error doesn't name the column that doesn't fit."""


def decode_json(
    records: "DataFrame", of: dict[str, Any], options: Options, *, has_reasons: bool = True
) -> "DataFrame":
    """Add the row to records that have the columns of ``rows`` without it.

    Without reasons the error of a value that doesn't fit the schema doesn't say why.
    """
    parser = tuple((_parser_options(options) | _STRICT).items())
    has_header = options.registry is not None
    return _in_steps(records, _json_steps(json.dumps(of), has_header, has_reasons, parser))


@lru_cache(maxsize=8)
def _json_steps(
    of_text: str, has_header: bool, has_reasons: bool, parser: tuple[tuple[str, str], ...]
) -> "_Steps":
    """The steps that give the parsed value, its error, and its row.

    Every part of an expression is a call into Spark's JVM, and a schema takes hundreds of them. So
    the steps are made once, not for each batch.
    """
    from pyspark.sql import functions as f

    of = json.loads(of_text)
    value = f.col(rows.VALUE)
    body = f.substring(value, HEADER_BYTES + 1, 1 << 30) if has_header else value
    text = body.cast("string")
    wrapped = f.concat(f.lit('{"r":'), text, f.lit(',"e":true}'))
    whole = struct([field("r", spread(of)), field("e", "boolean"), field(_CORRUPT, "string")])
    row, corrupt = f.col(f"{_PARSED}.r"), f.col(f"{_PARSED}.{_CORRUPT}")
    has_no_end = f.col(f"{_PARSED}.e").isNull()
    if has_reasons:
        is_blank = f.btrim(text, f.lit(" \t\r\n")) == ""
        error = f.when(f.octet_length(value) == 0, f.lit(f"{VALUE}it is empty"))
        if has_header:
            error = error.when(
                _no_header(value), f.lit(f"{VALUE}it doesn't begin with a schema id")
            )
        error = (
            error.when(~f.is_valid_utf8(text), f.lit(f"{VALUE}it isn't UTF-8"))
            .when(is_blank, f.lit(f"{VALUE}it is empty"))
            .when(corrupt.isNotNull(), _json_error(text, wrapped, row, of))
            .when(has_no_end, f.lit(_MORE))
            .when(row.isNull(), f.lit(f"{VALUE}it is null, not an object"))
        )
        given = wrapped
    else:
        is_text = f.is_valid_utf8(text)
        is_text = ~_no_header(value) & is_text if has_header else is_text
        given = f.when(is_text, wrapped).otherwise(f.lit(_NO_JSON))
        wrong = corrupt.isNotNull() | row.isNull() | has_no_end
        error = f.when(wrong, f.lit(f"{VALUE}it doesn't fit"))
    parsed = f.from_json(_once(f.col(_TEXT)), _spark_type(whole), dict(parser))
    error = _also_missing(error, row, of)
    texts, is_spelled = texts_of(of), has_spellings(of)
    if texts is None:
        found = _steps(parsed, error, row)
    else:
        marked = marked_numbers(f.col(_TEXT))
        again = f.from_json(marked, _spark_type(struct([field("r", spread(texts))])), dict(parser))
        second = _once(f.when(may_differ(row, texts), again)).alias(_EXACT)
        exact = f.col(f"{_EXACT}.r")
        exact = folded(exact, texts) if is_spelled else exact
        whole_row = f.when(exact.isNotNull(), with_exact_texts(row, exact, of)).otherwise(row)
        found = _steps(parsed, error, whole_row, (f.col(_TEXT),), (second,))
    if is_spelled:
        inner = folded(row, of).alias("r"), f.col(f"{_PARSED}.e"), corrupt
        carried = () if texts is None else (f.col(_TEXT),)
        one_each = (*columns(*_KEPT, rows.ERROR), *carried, f.struct(*inner).alias(_PARSED))
        found = (found[0], one_each, *found[1:])
    return ((*columns(*_KEPT, rows.ERROR), _once(given).alias(_TEXT)), *found)


def decode_csv(records: "DataFrame", of: dict[str, Any], options: Options) -> "DataFrame":
    """Add the row to records that have the columns of ``rows`` without it."""
    from pyspark.sql import functions as f

    text = f.rtrim(f.col(rows.VALUE).cast("string"), f.lit("\r\n"))
    whole = struct([*loosened_fields(of), field(_CORRUPT, "string")])
    how = {
        "sep": options["delimiter"],
        "quote": options["quote"],
        "escape": options["escape"],
        "nullValue": options["null_value"],
        **_parser_options(options),
    }
    ddl = columns_text(whole)
    parsed = f.from_csv(_once(text), f.lit(ddl), how)
    # Spark treats a line's end as a character. With a quote, it may belong to a column.
    several = text.contains("\n") & ~text.contains(options["quote"])
    wrong = f.lit(f"{VALUE}it doesn't fit the columns {text_of(of)}")
    error = (
        f.when(~f.is_valid_utf8(text), f.lit(f"{VALUE}it isn't UTF-8"))
        .when(f.length(text) == 0, f.lit(f"{VALUE}it is empty"))
        .when(several, f.lit(f"{VALUE}it has several lines"))
        .when(f.col(f"{_PARSED}.{_CORRUPT}").isNotNull(), wrong)
    )
    row = f.col(_PARSED)
    found = f.struct(*(row[one["name"]].alias(one["name"]) for one in of["fields"]))
    return _with_row(records, parsed, _also_missing(error, row, of), found)


def decode_text(records: "DataFrame", options: Options) -> "DataFrame":
    """Add a row of one column with the value as text."""
    from pyspark.sql import functions as f

    text = f.col(rows.VALUE).cast("string")
    error = f.when(~f.is_valid_utf8(text), f.lit(f"{VALUE}it isn't UTF-8"))
    return _with_row(records, text, error, f.struct(f.col(_PARSED).alias(options["column"])))


def decode_bytes(records: "DataFrame", options: Options) -> "DataFrame":
    """Add a row of one column with the value as it is."""
    from pyspark.sql import functions as f

    value = f.col(rows.VALUE)
    error = f.lit(None).cast("string")
    return _with_row(records, value, error, f.struct(f.col(_PARSED).alias(options["column"])))


def loosened_fields(of: dict[str, Any]) -> list[dict[str, Any]]:
    """The columns of a struct, all nullable."""
    loose = loosened(of)
    assert isinstance(loose, dict)
    fields: list[dict[str, Any]] = loose["fields"]
    return fields


def _with_row(
    records: "DataFrame", parsed: "Column", error: "Column", row: "Column"
) -> "DataFrame":
    return _in_steps(records, _steps(parsed, error, row))


def _steps(
    parsed: "Column",
    error: "Column",
    row: "Column",
    carried: "tuple[Column, ...]" = (),
    found: "tuple[Column, ...]" = (),
) -> "_Steps":
    """The steps: parse the value, then find its error, then make the row if there is none.

    ``found`` is computed beside the error, of the parsed value and of ``carried``.
    """
    from pyspark.sql import functions as f

    kept = columns(*_KEPT)
    known, tombstone = f.col(rows.ERROR), f.col(rows.TOMBSTONE)
    checked = f.when(known.isNotNull(), known).when(~tombstone, error)
    return (
        (*kept, known, *carried, parsed.alias(_PARSED)),
        (*kept, f.col(_PARSED), *found, _once(checked).alias(rows.ERROR)),
        (*kept, known, f.when(known.isNull() & ~tombstone, row).alias(rows.ROW)),
    )


def _in_steps(records: "DataFrame", steps: "_Steps") -> "DataFrame":
    for one in steps:
        records = records.select(*one)
    return records


def _once(of: "Column") -> "Column":
    from pyspark.sql import functions as f

    return f.when(f.spark_partition_id() >= 0, of)


def _no_header(value: "Column") -> "Column":
    from pyspark.sql import functions as f

    return (f.octet_length(value) < HEADER_BYTES) | (f.substring(value, 1, 1) != f.lit(b"\x00"))


def _parser_options(options: Options) -> dict[str, str]:
    given = {"timestampFormat": "timestamp_format", "dateFormat": "date_format"}
    formats = {name: options[ours] for name, ours in given.items() if options.has(ours)}
    return {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, **formats}


def _why_no_json(text: "Column") -> "Column":
    """Whether more follows, or the end is missing; both only for texts that are no JSON."""
    from pyspark.sql import functions as f

    marks = f.regexp_replace(text, _TEXT_OF_JSON, "")
    opened = f.length(f.regexp_replace(marks, r"[^{\[]", ""))
    closed = f.length(f.regexp_replace(marks, r"[^}\]]", ""))
    return (
        f.when(f.try_parse_json(text).isNotNull(), f.lit(_MORE))
        .when((opened > closed) | marks.contains('"'), f.lit(_CUT))
        .otherwise(f.lit(f"{VALUE}it is no JSON"))
    )


def _json_error(text: "Column", wrapped: "Column", row: "Column", of: dict[str, Any]) -> "Column":
    """Why it is no JSON, or which columns have a value that doesn't fit."""
    from pyspark.sql import functions as f

    fields = of["fields"] if len(of["fields"]) <= _MAX_NAMED_COLUMNS else []
    named = [
        f.when(
            row[one["name"]].isNull()
            & f.get_json_object(wrapped, f"$.r['{one['name']}']").isNotNull(),
            f.lit(f"{one['name']} is no {text_of(one['type'])}"),
        )
        for one in fields
        if "'" not in one["name"]
    ]
    unfit = f.concat_ws("; ", f.lit(f"{VALUE}it doesn't fit the schema"), *named)
    is_json = f.try_parse_json(wrapped).isNotNull()
    return f.when(is_json, f.substring(unfit, 1, 500)).otherwise(_why_no_json(text))


def _also_missing(error: "Column", row: "Column", of: dict[str, Any]) -> "Column":
    """The error, or the first column that is NOT NULL and has no value."""
    for path, is_missing in _missing(row, of, ""):
        from pyspark.sql import functions as f

        error = error.when(is_missing, f.lit(f"{VALUE}required column {path} has no value"))
    return error


def _missing(of_row: "Column", spark_type: SparkType, path: str) -> "list[tuple[str, Column]]":
    """Paths of NOT NULL columns, and whether they lack a value, in the order of the schema."""
    from pyspark.sql import functions as f

    if not isinstance(spark_type, dict):
        return []
    found: list[tuple[str, Column]] = []
    if kind_of(spark_type) == "array":
        item = spark_type["elementType"]
        if _requires(item):
            found.append((f"{path}[]", f.exists(of_row, lambda one: _any_missing(one, item, path))))
    elif kind_of(spark_type) == "struct":
        for one in spark_type["fields"]:
            column, place = of_row[one["name"]], f"{path}.{one['name']}".lstrip(".")
            if not one["nullable"]:
                found.append((place, of_row.isNotNull() & column.isNull()))
            found += _missing(column, one["type"], place)
    return found


def _requires(spark_type: SparkType) -> bool:
    """Whether a type has a NOT NULL column."""
    if not isinstance(spark_type, dict):
        return False
    if kind_of(spark_type) == "struct":
        return any(not one["nullable"] or _requires(one["type"]) for one in spark_type["fields"])
    return kind_of(spark_type) == "array" and _requires(spark_type["elementType"])


def _any_missing(row: "Column", spark_type: SparkType, path: str) -> "Column":
    from pyspark.sql import functions as f

    whole = f.lit(False)
    for _, is_missing in _missing(row, spark_type, path):
        whole = whole | f.coalesce(is_missing, f.lit(False))
    return whole


def _spark_type(of: dict[str, Any]) -> Any:
    from pyspark.sql.types import StructType

    return StructType.fromJson(of)
