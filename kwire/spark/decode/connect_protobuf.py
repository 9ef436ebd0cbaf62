"""Protobuf messages of Connect's ProtobufConverter, as Connect's values with their schemas.

The converter keeps the types of decimals, days, times of day and timestamps as messages of their
own. All other names are gone: a MicroTimestamp of Debezium is an int64. Of such values the column's
type says what they mean, and where that isn't enough the settings, as for JSON without a schema.

A field without presence has no null: the converter writes zero or an empty text for it, unless it
has ``optional.for.nullables`` or ``wrapper.for.nullables``.
"""

from collections.abc import Callable
from datetime import date
from typing import Any

from kwire.schemas.undecodable import Undecodable
from kwire.spark.decode.connect_values import UNNAMED, Schema, digits, digits_of_float
from kwire.spark.decode.protobuf_types import ENUM, TIMESTAMP, WRAPPERS, Descriptor, is_map

_FIRST_DAY = date(1970, 1, 1)
_SECOND_NS = 10**9
_DEBEZIUM = "io.debezium."

_Converter = Callable[[Any], Any]


class ConnectProtobuf:
    """Reads values of one message."""

    def __init__(self, message: Descriptor) -> None:
        from google.protobuf import message_factory

        self._name = message.full_name
        self._kind = message_factory.GetMessageClass(message)
        self.schema, self._convert = _of_message(message, ())

    def value(self, content: bytes, position: int) -> Any:
        """The value from a position of a record's bytes on; Undecodable."""
        found = self._kind()
        try:
            found.ParseFromString(content[position:])
        except Exception as error:  # DecodeError of protobuf, which is imported by its user alone
            raise Undecodable(f"it is no message {self._name}") from error
        return self._convert(found)


def _of_message(message: Descriptor, within: tuple[str, ...]) -> tuple[Schema, _Converter]:
    """The schema as Connect has it, and what makes the fields of a message."""
    if message.full_name in within:
        raise Undecodable(f"a message {message.full_name} contains itself")
    within = (*within, message.full_name)
    fields, getters = [], {}
    for one in message.fields:
        of, getters[one.name] = _of_field(one, within)
        fields.append({**of, "field": one.name})

    def convert(value: Any) -> dict[str, Any]:
        return {name: get(value) for name, get in getters.items()}

    return {"type": "struct", "fields": fields}, convert


def _of_field(one: Any, within: tuple[str, ...]) -> tuple[Schema, _Converter]:
    name = one.name
    if is_map(one):
        parts = one.message_type.fields_by_name
        (keys, change_key), (values, change) = (_of_one(parts[part], within) for part in parts)
        # A message that stands in a map is made by reading it, so items() is right for both.
        return {"type": "map", "keys": keys, "values": values}, lambda value: [
            [change_key(key), change(item)] for key, item in getattr(value, name).items()
        ]
    of, change = _of_one(one, within)
    if one.is_repeated:
        return {"type": "array", "items": of}, lambda value: [
            change(item) for item in getattr(value, name)
        ]
    if one.has_presence:
        return of, lambda value: change(getattr(value, name)) if value.HasField(name) else None
    return of, lambda value: change(getattr(value, name))


def _of_one(one: Any, within: tuple[str, ...]) -> tuple[Schema, _Converter]:
    message = one.message_type
    if message is None:
        return UNNAMED, _scalar(one)
    if message.full_name in WRAPPERS:
        inner = _scalar(message.fields_by_name["value"])
        return UNNAMED, lambda value: inner(value.value)
    if message.full_name in _NAMED:
        name, convert = _NAMED[message.full_name]
        return {"type": "", "name": name}, convert
    return _of_message(message, within)


def _scalar(one: Any) -> _Converter:
    if one.type == ENUM:
        names = {value.number: value.name for value in reversed(one.enum_type.values)}
        return lambda number: names.get(number) or str(number)
    return {1: digits, 2: digits_of_float}.get(one.type, _same)


def _same(value: Any) -> Any:
    return value


def _decimal(value: Any) -> dict[str, Any]:
    return {"scale": value.scale, "value": value.value}


def _days(value: Any) -> int:
    try:
        return (date(value.year, value.month, value.day) - _FIRST_DAY).days
    except ValueError as error:
        given = f"{value.year}-{value.month}-{value.day}"
        raise Undecodable(f"{given} is no day in the years 1 to 9999") from error


def _time_ns(value: Any) -> int:
    seconds = (value.hours * 60 + value.minutes) * 60 + value.seconds
    return int(seconds * _SECOND_NS + value.nanos)


def _moment_ns(value: Any) -> int:
    return int(value.seconds * _SECOND_NS + value.nanos)


_NAMED: dict[str, tuple[str, _Converter]] = {
    "confluent.type.Decimal": (f"{_DEBEZIUM}data.VariableScaleDecimal", _decimal),
    "google.type.Date": (f"{_DEBEZIUM}time.Date", _days),
    "google.type.TimeOfDay": (f"{_DEBEZIUM}time.NanoTime", _time_ns),
    TIMESTAMP: (f"{_DEBEZIUM}time.NanoTimestamp", _moment_ns),
}
"""The messages whose meaning is known: the name of Debezium's type, and the value of it."""
