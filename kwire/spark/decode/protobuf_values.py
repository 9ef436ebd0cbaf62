"""Converts Protobuf messages into values that pyarrow takes for the types of ``protobuf_types``."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

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
    """Makes the columns of a message."""
    getters = [(one.name, _getter(one)) for one in message.fields]

    def convert(value: Any) -> dict[str, Any]:
        return {name: get(value) for name, get in getters}

    return convert


def _getter(one: Any) -> Converter:
    name = one.name
    if is_map(one):
        change = _single(one.message_type.fields_by_name["value"]) or _same
        change_key = _single(one.message_type.fields_by_name["key"]) or _same
        # A message that stands in a map is made by reading it, so items() is right for both.
        return lambda value: [
            (change_key(key), change(item)) for key, item in getattr(value, name).items()
        ]
    change_one = _single(one) or _same
    if one.is_repeated:
        return lambda value: [change_one(item) for item in getattr(value, name)]
    if one.has_presence:
        return lambda value: change_one(getattr(value, name)) if value.HasField(name) else None
    return lambda value: change_one(getattr(value, name))


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
    if not _FIRST_SECOND <= value.seconds <= _LAST_SECOND or not 0 <= value.nanos < 1_000_000_000:
        raise Undecodable(f"a timestamp of {value.seconds} s is outside the years 1 to 9999")
    return int(value.seconds * 1_000_000 + value.nanos // 1000)


def _duration(value: Any) -> int:
    if abs(value.seconds) > _MAX_DURATION_S:
        raise Undecodable(f"a duration of {value.seconds} s is longer than 10,000 years")
    return int(value.seconds * 1_000_000 + int(value.nanos / 1000))


def _as_json(value: Any) -> str:
    from google.protobuf import json_format

    return str(json_format.MessageToJson(value, indent=None))


def _same(value: Any) -> Any:
    return value
