"""Values as Kafka Connect's JSON converter writes them, and Debezium's types, as Spark's types.

A value comes with its schema (``{"type": "bytes", "name": "…Decimal", …}``), or without one. With a
schema its name says what the value means. Without one the column's type does, and where that isn't
enough (``Meanings``) the settings do: nothing is guessed. Values of other converters are the same
(``connect_avro``, ``connect_protobuf``), but that bytes are bytes where JSON has base64.

===============================================  ==============================================
schema's name                                    what the value means
===============================================  ==============================================
org.apache.kafka.connect.data.Decimal            a decimal: base64 of its digits, or a number
io.debezium.data.VariableScaleDecimal            the same, with a scale of its own
….Date                                           days since 1970
….Timestamp, MicroTimestamp, NanoTimestamp       ms, µs, ns since 1970, without a time zone
ZonedTimestamp, IsoTimestamp; IsoDate            a time with its zone, a day, as ISO 8601
….Time, MicroTime, NanoTime                      ms, µs, ns since midnight
none or another, of type bytes                   base64
none or another (Json, Uuid, Enum, Year, …)      the JSON value as it is
===============================================  ==============================================

Rules:

- A value becomes the column's type only if nothing of it is lost. Else it is Undecodable: digits
  that a decimal has no place for, nanoseconds in a TIMESTAMP, years beyond 1 to 9999, digits that
  a FLOAT or DOUBLE would change.
- Whole numbers take times and days as the numbers that they are, in the source's unit. A STRING
  takes every value: times as ISO 8601, decimals as their digits, objects and arrays as JSON.
- Numbers with a point or an exponent are never doubles before they are in a column (``Digits``).
"""

import json
import re
import struct
from base64 import b64decode, b64encode
from binascii import Error as NoBase64
from collections.abc import Callable, Container
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, localcontext
from math import isfinite
from typing import Any, NamedTuple

from kwire.schemas.undecodable import Undecodable
from kwire.spark.decode.spark_types import SparkType, kind_of, text_of

Schema = dict[str, Any]

UNNAMED: Schema = {"type": ""}
"""The schema of a value that has one, which doesn't say what the value means."""

_Takes = Callable[[Any, Any, str], Any]
"""What a value means, the value, and the type of its column: the column's value."""

UNITS_NS = {"milliseconds": 1_000_000, "microseconds": 1000, "nanoseconds": 1}
DECIMALS = ("base64", "text")

_CONNECT, _DEBEZIUM = "org.apache.kafka.connect.data.", "io.debezium.time."
_DECIMAL = f"{_CONNECT}Decimal"
_VARIABLE = "io.debezium.data.VariableScaleDecimal"
_DAYS = {f"{_CONNECT}Date", f"{_DEBEZIUM}Date"}
_MOMENTS_NS = {
    f"{_CONNECT}Timestamp": 1_000_000,
    f"{_DEBEZIUM}Timestamp": 1_000_000,
    f"{_DEBEZIUM}MicroTimestamp": 1000,
    f"{_DEBEZIUM}NanoTimestamp": 1,
}
_TIMES_NS = {
    f"{_CONNECT}Time": 1_000_000,
    f"{_DEBEZIUM}Time": 1_000_000,
    f"{_DEBEZIUM}MicroTime": 1000,
    f"{_DEBEZIUM}NanoTime": 1,
}
_ZONED = {f"{_DEBEZIUM}ZonedTimestamp", f"{_DEBEZIUM}IsoTimestamp"}
_ISO_DAYS = f"{_DEBEZIUM}IsoDate"

_WHOLE_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_OF_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_NUMBER = re.compile(r"([+-]?)(\d+)(?:\.(\d*))?(?:[eE]([+-]?\d{1,9}))?", re.ASCII)
_ISO = re.compile(
    r"(\d{4}-\d\d-\d\dT\d\d:\d\d)(:\d\d)?(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d(?::\d\d)?)", re.ASCII
)
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")
_MOST_FLOAT_DIGITS = 9
_MOST_SCALE = 1_100
"""No double has digits so far from its point."""
_EXACT_DIGITS = 3_000
"""More than a double and a text near it have between their first and their last digit."""
_MOST_DIGITS = 4000
_EPOCH, _FIRST_DAY = datetime(1970, 1, 1, tzinfo=UTC), date(1970, 1, 1)
_SECOND_NS, _DAY_NS = 10**9, 86_400 * 10**9
_FIRST_NS, _END_NS = -62_135_596_800 * _SECOND_NS, 253_402_300_800 * _SECOND_NS
"""The years 1 to 9999."""


class Digits(NamedTuple):
    """A JSON number with a point or an exponent, as it was written."""

    text: str


class Exact(NamedTuple):
    """A decimal: ``unscaled`` divided by ten to the power of ``scale``."""

    unscaled: int
    scale: int


class Moment(NamedTuple):
    """A time: nanoseconds since 1970, and whether the zone is known or it is a local time."""

    ns: int
    is_zoned: bool


class Day(NamedTuple):
    """Days since 1970."""

    number: int


class TimeOfDay(NamedTuple):
    """Nanoseconds since midnight; MySQL's may be negative or longer than a day."""

    ns: int


class Meanings(NamedTuple):
    """What values without a schema mean in columns whose type doesn't say it; empty: not known."""

    decimals: str = ""
    """One of DECIMALS: what a text in a DECIMAL is. base64 has the scale of the column."""
    timestamps: str = ""
    """One of UNITS_NS: what a number in a TIMESTAMP counts."""


def from_json(text: str) -> Any:
    """A JSON value whose numbers with a point are ``Digits``; Undecodable."""
    try:
        return json.loads(text, parse_float=Digits, parse_constant=_no_number)
    except RecursionError as error:
        raise Undecodable("it is no JSON: it is nested too deep") from error
    except ValueError as error:
        raise Undecodable(f"it is no JSON: {error}") from error


def _no_number(name: str) -> Any:
    raise Undecodable(f"it is no JSON: {name}")


def converted(value: Any, spark_type: SparkType, schema: Schema | None, how: Meanings) -> Any:
    """The value as pyarrow takes it for a column of the type; Undecodable if it doesn't fit."""
    if value is None:
        return None
    if isinstance(spark_type, dict):
        return _NESTED[kind_of(spark_type)](value, spark_type, schema, how)
    is_bare = schema is None or not (schema.get("type", "?") or schema.get("name"))
    found = _bare(value, spark_type, how) if is_bare else _meant(value, schema or {})
    take: _Takes = _TO.get(spark_type, _to_decimal)
    return take(found, value, spark_type)


def _unfit(value: Any, spark_type: SparkType) -> Undecodable:
    return Undecodable(f"{_shown(value)} is no {text_of(spark_type)}")


def _shown(value: Any) -> str:
    text = as_text(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


def as_text(value: Any) -> str:
    """A JSON value as a text: a text as it is, and all else as JSON without needless space."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    return value if isinstance(value, str) else _as_json(value)


def _as_json(value: Any) -> str:
    if isinstance(value, Digits):
        return value.text
    if isinstance(value, bytes):
        value = b64encode(value).decode()
    if isinstance(value, dict):
        parts = (f"{_as_json(name)}:{_as_json(one)}" for name, one in value.items())
        return f"{{{','.join(parts)}}}"
    if isinstance(value, list):
        return f"[{','.join(map(_as_json, value))}]"
    return json.dumps(value, ensure_ascii=False)


def digits(value: float) -> Any:
    """A number as the JSON converter writes it; what isn't finite as it is."""
    return Digits(repr(value)) if isfinite(value) else value


def digits_of_float(value: float) -> Any:
    """The shortest digits that are the same number of 32 bits."""
    if not isfinite(value):
        return value
    for number in range(1, _MOST_FLOAT_DIGITS):
        text = f"{value:.{number}g}"
        if struct.pack("<f", float(text)) == struct.pack("<f", value):
            return Digits(text)
    return Digits(f"{value:.{_MOST_FLOAT_DIGITS}g}")


# What a value means.


def _meant(value: Any, schema: Schema) -> Any:
    """What a value with a schema means; Undecodable."""
    name = schema.get("name")
    if name == _DECIMAL:
        return _decimal_of(value, schema)
    if name == _VARIABLE:
        return _of_variable_scale(value)
    if name in _MOMENTS_NS:
        return Moment(_whole(value) * _MOMENTS_NS[name], is_zoned=False)
    if name in _DAYS:
        return Day(_whole(value))
    if name in _TIMES_NS:
        return TimeOfDay(_whole(value) * _TIMES_NS[name])
    if name in _ZONED:
        return _moment_of(_text(value))
    if name == _ISO_DAYS:
        return _day_of(_text(value).removesuffix("Z"))
    if schema.get("type") == "bytes":
        return _bytes_of(value)
    if schema.get("type") in ("float", "double") and value in _NOT_FINITE:
        return float(value)
    return value


def _bare(value: Any, of: str, how: Meanings) -> Any:
    """What a value without a schema means in a column of a type; Undecodable."""
    if of in ("timestamp", "timestamp_ntz"):
        return _bare_moment(value, how)
    if of in ("float", "double"):
        return float(value) if value in _NOT_FINITE else value
    if of == "date" and isinstance(value, str):
        return _day_of(value)
    if of == "date":
        return Day(_whole(value))
    if of == "binary" and isinstance(value, str | bytes):
        return _bytes_of(value)
    scale = _OF_DECIMAL.fullmatch(of)
    return value if scale is None else _bare_decimal(value, int(scale[2]), how)


def _bare_moment(value: Any, how: Meanings) -> Moment:
    if isinstance(value, str):
        return _moment_of(value)
    number = _whole(value)
    if not how.timestamps:
        raise Undecodable(f"{value} has no schema that says its unit: decode.timestamps is needed")
    return Moment(number * UNITS_NS[how.timestamps], is_zoned=False)


def _bare_decimal(value: Any, scale: int, how: Meanings) -> Any:
    if isinstance(value, dict):
        return _of_variable_scale(value)
    if isinstance(value, bytes) or (isinstance(value, str) and how.decimals == "base64"):
        return Exact(_signed(_bytes_of(value)), scale)
    if isinstance(value, str) and not how.decimals:
        raise Undecodable(
            f"{_shown(value)} has no schema that says whether it is base64 or digits: "
            "decode.decimals is needed"
        )
    return value


def _decimal_of(value: Any, schema: Schema) -> Any:
    if not isinstance(value, str | bytes):
        return value  # decimal.format=NUMERIC
    scale = (schema.get("parameters") or {}).get("scale", "0")
    return Exact(_signed(_bytes_of(value)), _scale(scale))


def _of_variable_scale(value: Any) -> Exact:
    if not isinstance(value, dict) or set(value) != {"scale", "value"}:
        raise Undecodable(f"{_shown(value)} is no decimal with a scale of its own")
    return Exact(_signed(_bytes_of(value["value"])), _scale(value["scale"]))


def _scale(value: Any) -> int:
    try:
        scale = int(value)
    except (TypeError, ValueError) as error:
        raise Undecodable(f"{_shown(value)} is no scale") from error
    if abs(scale) > _MOST_DIGITS:
        raise Undecodable(f"a decimal has the scale {scale}")
    return scale


def _signed(digits: bytes) -> int:
    if not digits:
        raise Undecodable("a decimal has no digits")
    return int.from_bytes(digits, "big", signed=True)


def _bytes_of(value: Any) -> bytes:
    """Bytes as they are, or those of base64."""
    if isinstance(value, bytes):
        return value
    text = _text(value)
    try:
        return b64decode(text, validate=True)
    except (NoBase64, ValueError) as error:
        raise Undecodable(f"{_shown(text)} is no base64") from error


def _whole(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise Undecodable(f"{_shown(value)} is no whole number")
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Undecodable(f"{_shown(value)} is no text")
    return value


def _moment_of(text: str) -> Moment:
    found = _ISO.fullmatch(text)
    if found is None:
        raise Undecodable(f"{_shown(text)} is no time with a zone in the years 1 to 9999")
    minutes, seconds, fraction, zone = found.groups()
    try:
        past = datetime.fromisoformat(f"{minutes}{seconds or ':00'}{zone}") - _EPOCH
    except (ValueError, OverflowError) as error:
        raise Undecodable(f"{text} is no time") from error
    whole = past.days * _DAY_NS + past.seconds * _SECOND_NS
    return Moment(whole + int((fraction or "0").ljust(9, "0")), is_zoned=True)


def _day_of(text: str) -> Day:
    try:
        return Day((date.fromisoformat(text) - _FIRST_DAY).days)
    except ValueError as error:
        raise Undecodable(f"{_shown(text)} is no day in the years 1 to 9999") from error


def _exact(value: Any) -> Exact | None:
    """A number as a decimal; None for what is no number."""
    if isinstance(value, Exact):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Exact(value, 0)
    text = value.text if isinstance(value, Digits) else value
    found = _NUMBER.fullmatch(text) if isinstance(text, str) else None
    if found is None:
        return None
    sign, whole, fraction, exponent = found.groups()
    digits, fraction = whole + (fraction or ""), fraction or ""
    scale = len(fraction) - int(exponent or 0)
    if abs(scale) > _MOST_DIGITS or len(digits) > _MOST_DIGITS:
        raise Undecodable(f"{_shown(text)} has too many digits")
    return Exact(int(sign + digits), scale)


# What a column takes.


def _to_whole(found: Any, value: Any, of: str) -> int:
    # Digits of a text are a text, also where a decimal would take them.
    number = None if isinstance(value, str) and found is value else _exact(found)
    if isinstance(found, Moment | Day | TimeOfDay) and isinstance(value, int):
        number = Exact(value, 0)
    if number is not None:
        exact = _scaled(number, 0)
        end = 1 << (_WHOLE_BITS[of] - 1)
        if exact is not None and -end <= exact < end:
            return exact
    raise _unfit(value, of)


def _scaled(number: Exact, scale: int) -> int | None:
    """The digits with another scale; None if some would be lost."""
    if scale >= number.scale:
        return int(number.unscaled * 10 ** (scale - number.scale))
    whole, rest = divmod(number.unscaled, 10 ** (number.scale - scale))
    return None if rest else whole


def _to_decimal(found: Any, value: Any, of: str) -> Decimal:
    parts = _OF_DECIMAL.fullmatch(of)
    number = _exact(found)
    if parts is None or number is None:
        raise _unfit(value, of)
    precision, scale = int(parts[1]), int(parts[2])
    digits = _scaled(number, scale)
    if digits is None or abs(digits) >= 10**precision:
        raise Undecodable(f"{_plain(number)} has more digits than {text_of(of)}")
    return Decimal((int(digits < 0), tuple(map(int, str(abs(digits)))), -scale))


def _plain(number: Exact) -> str:
    """The digits of a decimal, never with an exponent."""
    if number.scale <= 0:
        return str(number.unscaled * 10**-number.scale)
    digits = str(abs(number.unscaled)).rjust(number.scale + 1, "0")
    sign = "-" if number.unscaled < 0 else ""
    return f"{sign}{digits[: -number.scale]}.{digits[-number.scale :]}"


def _to_float(found: Any, value: Any, of: str) -> float:
    if isinstance(found, float):
        return found  # what isn't finite
    exact = None if isinstance(value, str) and found is value else _exact(found)
    if exact is None:
        raise _unfit(value, of)
    written = f"{exact.unscaled}e{-exact.scale}"
    number = float(found.text if isinstance(found, Digits) else written)  # zero has a sign
    if of == "float":
        try:
            [number] = struct.unpack("<f", struct.pack("<f", number))
        except OverflowError as error:
            raise _unfit(value, of) from error
    if not isfinite(number) or not _is_rounded(number, Decimal(written), exact.scale):
        raise _unfit(value, of)
    return number


def _is_rounded(number: float, written: Decimal, scale: int) -> bool:
    """Whether all digits that were written are the number's: 0.1 is, though no double is a tenth.

    A number half-way between two texts may be written as either. The shortest text of a power of
    two may be further away, for the numbers below it lie closer together.
    """
    if not written or written == Decimal(repr(number)):
        return True
    if abs(scale) > _MOST_SCALE:
        return False
    with localcontext() as context:
        context.prec = _EXACT_DIGITS
        return 2 * abs(Decimal(number) - written) <= Decimal(1).scaleb(-scale)


def _to_boolean(found: Any, value: Any, of: str) -> bool:
    if not isinstance(found, bool):
        raise _unfit(value, of)
    return found


def _to_binary(found: Any, value: Any, of: str) -> bytes:
    if not isinstance(found, bytes):
        raise _unfit(value, of)
    return found


def _to_string(found: Any, value: Any, _of: str) -> str:
    if isinstance(value, str) and not isinstance(found, Exact):
        return value
    if isinstance(found, Exact):
        return _plain(found)
    if isinstance(found, Day):
        return _date(found).isoformat()
    if isinstance(found, TimeOfDay):
        return _clock(found.ns)
    if isinstance(found, Moment):
        days, ns = divmod(_in_years(found), _DAY_NS)
        return f"{_date(Day(days)).isoformat()}T{_clock(ns)}"
    return as_text(value)


def _clock(ns: int) -> str:
    seconds, rest = divmod(abs(ns), _SECOND_NS)
    minutes, second = divmod(seconds, 60)
    hour, minute = divmod(minutes, 60)
    fraction = f".{rest:09}" if rest else ""
    while fraction.endswith("000"):
        fraction = fraction[:-3]
    return f"{'-' if ns < 0 else ''}{hour:02}:{minute:02}:{second:02}{fraction}"


def _date(day: Day) -> date:
    try:
        return _FIRST_DAY + timedelta(days=day.number)
    except OverflowError as error:
        raise Undecodable(f"day {day.number} is in none of the years 1 to 9999") from error


def _in_years(moment: Moment) -> int:
    if not _FIRST_NS <= moment.ns < _END_NS:
        raise Undecodable(f"time {moment.ns} ns is in none of the years 1 to 9999")
    return moment.ns


def _to_date(found: Any, value: Any, of: str) -> date:
    if not isinstance(found, Day):
        raise _unfit(value, of)
    return _date(found)


def _to_moment(found: Any, value: Any, of: str) -> int:
    """Microseconds since 1970."""
    if not isinstance(found, Moment) or (of == "timestamp_ntz" and found.is_zoned):
        raise _unfit(value, of)
    us, rest = divmod(_in_years(found), 1000)
    if rest:
        raise Undecodable(f"{_shown(value)} has nanoseconds, which no {text_of(of)} has")
    return us


_TO: dict[str, _Takes] = {
    **dict.fromkeys(_WHOLE_BITS, _to_whole),
    "float": _to_float,
    "double": _to_float,
    "boolean": _to_boolean,
    "string": _to_string,
    "binary": _to_binary,
    "date": _to_date,
    "timestamp": _to_moment,
    "timestamp_ntz": _to_moment,
}
"""How each type takes what a value means; all others are decimals."""


def _to_struct(value: Any, of: Any, schema: Schema | None, how: Meanings) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _unfit(value, of)
    return columns_of(value, of, None if schema is None else fields_of(schema), how)


def columns_of(
    value: dict[str, Any],
    of: dict[str, Any],
    schemas: dict[str, Schema] | None,
    how: Meanings,
    needed: Container[str] | None = None,
) -> dict[str, Any]:
    """The fields of a struct from those of an object; the error names the field.

    ``needed`` names the fields whose values have to fit, None means all; others are null then.
    """
    found = {}
    for one in of["fields"]:
        name = one["name"]
        schema = None if schemas is None else schemas.get(name, {})
        try:
            found[name] = converted(value.get(name), one["type"], schema, how)
        except Undecodable as error:
            if needed is None or name in needed:
                raise Undecodable(f"column {name}: {error}") from error
            found[name] = None
    return found


def fields_of(schema: Schema) -> dict[str, Schema]:
    """The schemas of a struct's fields, by name; Undecodable if it is no struct's."""
    fields = schema.get("fields")
    if not isinstance(fields, list) or not all(isinstance(one, dict) for one in fields):
        raise Undecodable("its schema is none of an object")
    return {str(one.get("field")): one for one in fields}


def _to_array(value: Any, of: Any, schema: Schema | None, how: Meanings) -> list[Any]:
    if not isinstance(value, list):
        raise _unfit(value, of)
    items = _part(schema, "items")
    return [converted(one, of["elementType"], items, how) for one in value]


def _to_map(value: Any, of: Any, schema: Schema | None, how: Meanings) -> list[tuple[Any, Any]]:
    pairs = list(value.items()) if isinstance(value, dict) else value
    if not isinstance(pairs, list):
        raise _unfit(value, of)
    keys, values = _part(schema, "keys"), _part(schema, "values")
    found = []
    for one in pairs:
        if not isinstance(one, list | tuple) or len(one) != 2 or one[0] is None:
            raise _unfit(value, of)
        key = converted(one[0], of["keyType"], keys, how)
        found.append((key, converted(one[1], of["valueType"], values, how)))
    return found


def _part(schema: Schema | None, name: str) -> Schema | None:
    if schema is None:
        return None
    part = schema.get(name, {})
    if not isinstance(part, dict):
        raise Undecodable(f"its schema has no {name}")
    return part


_NESTED: dict[str, Callable[[Any, Any, Schema | None, Meanings], Any]] = {
    "struct": _to_struct,
    "array": _to_array,
    "map": _to_map,
}
