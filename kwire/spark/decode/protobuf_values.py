"""Converts Protobuf messages into values that pyarrow takes for the types of ``protobuf_types``."""

from collections.abc import Callable
from decimal import Decimal
from keyword import iskeyword
from typing import Any

from kwire.protocol.generated import compile_function
from kwire.schemas.undecodable import Undecodable
from kwire.spark.decode.protobuf_types import (
    DURATION,
    ENUM,
    FIXED64,
    JSON_LIKE,
    TIMESTAMP,
    UINT64,
    WRAPPERS,
    Descriptor,
    is_map,
)

Converter = Callable[[Any], Any]

_FIRST_SECOND, _LAST_SECOND = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999: what google.protobuf.Timestamp may hold."""
_MAX_DURATION_S = 315_576_000_000


def row_converter(message: Descriptor) -> Converter:
    """Makes the columns of a message.

    It is generated, as one expression: a call for each column would take longer than to parse the
    message.
    """
    changes: dict[str, Any] = {}
    fields = "".join(f"        {one.name!r}: {_value(one, changes)},\n" for one in message.fields)
    source = f"def convert(value):\n    return {{\n{fields}    }}\n"
    found: Converter = compile_function(
        source, "convert", f"<columns of {message.full_name}>", changes
    )
    return found


def _value(one: Any, changes: dict[str, Any]) -> str:
    """The expression of a field's column; ``changes`` gets the functions that it calls."""
    name = one.name
    is_plain = name.isascii() and name.isidentifier() and not iskeyword(name)
    field = f"value.{name}" if is_plain else f"getattr(value, {name!r})"
    if is_map(one):
        entry = one.message_type.fields_by_name
        key = _changed("key", entry["key"], changes)
        item = _changed("item", entry["value"], changes)
        # A message that stands in a map is made by reading it, so items() is right for both.
        return f"[({key}, {item}) for key, item in {field}.items()]"
    if one.is_repeated:
        return f"[{_changed('item', one, changes)} for item in {field}]"
    found = _changed(field, one, changes)
    return f"{found} if value.HasField({name!r}) else None" if one.has_presence else found


def _changed(value: str, one: Any, changes: dict[str, Any]) -> str:
    change = _single(one)
    if change is None:
        return value
    name = f"change_{len(changes)}"
    changes[name] = change
    return f"{name}({value})"


def _single(one: Any) -> Converter | None:
    message = one.message_type
    if message is None:
        return _scalar(one)
    if message.full_name in WRAPPERS:
        inner = _scalar(message.fields_by_name["value"]) or _same
        return lambda value: inner(value.value)
    if message.full_name in JSON_LIKE:
        return _as_json
    if message.full_name == TIMESTAMP:
        return _timestamp
    if message.full_name == DURATION:
        return _duration
    return row_converter(message)


def _scalar(one: Any) -> Converter | None:
    if one.type in (UINT64, FIXED64):
        return Decimal
    if one.type == ENUM:
        names = {value.number: value.name for value in reversed(one.enum_type.values)}
        return lambda number: names.get(number) or str(number)
    return None


def _timestamp(value: Any) -> int:
    seconds: int = value.seconds
    nanos: int = value.nanos
    if not _FIRST_SECOND <= seconds <= _LAST_SECOND or not 0 <= nanos < 1_000_000_000:
        raise Undecodable(f"a timestamp of {seconds} s is outside the years 1 to 9999")
    return seconds * 1_000_000 + nanos // 1000


def _duration(value: Any) -> int:
    if abs(value.seconds) > _MAX_DURATION_S:
        raise Undecodable(f"a duration of {value.seconds} s is longer than 10,000 years")
    return int(value.seconds * 1_000_000 + int(value.nanos / 1000))


def _as_json(value: Any) -> str:
    from google.protobuf import json_format

    return str(json_format.MessageToJson(value, indent=None))


def _same(value: Any) -> Any:
    return value
