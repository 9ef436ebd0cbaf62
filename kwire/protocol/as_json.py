"""Turns messages into the JSON that Apache Kafka's own tools print.

Rules:

- Names of fields are in camel case. Uuids are printed as Kafka prints them, bytes in base64.
- A tagged field is printed only if its value isn't the default; tagged structs are always printed.
- A field that the version of the message lacks is not printed.

Source: the generated JsonConverter classes of Kafka.
"""

from base64 import b64encode
from typing import Any

from kwire.protocol.types import ARRAY, MISSING, Field, Kind, Message, binary, uuid, uuid_to_str


def camel_case(name: str) -> str:
    """``topic_id`` → ``topicId``."""
    first, *others = name.split("_")
    return first + "".join(word.capitalize() for word in others)


def as_json(message: Message, version: int) -> dict[str, Any]:
    """The fields that ``message`` has in ``version``, ready for ``json.dumps``."""
    return {
        camel_case(field.name): _value(field, getattr(message, field.name), version)
        for field in message.FIELDS
        if field.is_in(version) and _is_written(field, getattr(message, field.name))
    }


def _is_written(field: Field, value: Any) -> bool:
    """Whether a field is printed; Kafka prints a tagged struct even if it is absent."""
    if field.tag is None or (field.element is not None and field.kind is not ARRAY):
        return True
    default = [] if field.default is MISSING else field.default
    return bool(value != default)


def _value(field: Field, value: Any, version: int) -> Any:
    if field.kind is ARRAY and value is not None:
        return [_element(field.element, item, version) for item in value]
    return _element(field.kind if field.element is None else field.element, value, version)


def _element(kind: Any, value: Any, version: int) -> Any:
    if isinstance(value, Message):
        return as_json(value, version)
    if isinstance(kind, Kind) and value is not None:
        if kind is uuid:
            return uuid_to_str(value)
        if kind is binary:
            return b64encode(value).decode("ascii")
    return value
