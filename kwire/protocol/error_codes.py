"""The errors that a response tells: the values of all its fields called ``error_code``.

Rule: at most ``MOST`` structs of a response are looked at, because a large response must not cost
much more for being counted.
"""

from collections.abc import Iterator
from functools import cache
from itertools import islice
from typing import NamedTuple

from kwire.protocol.types import ARRAY, STRUCT, Message, MessageType

MOST = 100


class _Places(NamedTuple):
    """Where a message has error codes: in itself, in structs, in arrays of structs."""

    is_here: bool
    structs: tuple[str, ...]
    arrays: tuple[str, ...]


def error_codes(response: Message) -> list[int]:
    """The error codes of a response that stand for errors; the same one for each of its fields."""
    places = _places(type(response))
    if places.is_here and not places.arrays and not places.structs:  # the usual case
        code: int = response.error_code  # type: ignore[attr-defined]
        return [code] if code else []
    return [code for code in islice(_codes(response), MOST) if code]


def _codes(message: Message) -> Iterator[int]:
    places = _places(type(message))
    yield message.error_code if places.is_here else 0  # type: ignore[attr-defined]
    for name in places.structs:
        inner = getattr(message, name)
        if inner is not None:
            yield from _codes(inner)
    for name in places.arrays:
        for element in getattr(message, name) or ():
            yield from _codes(element)


@cache
def _places(message: MessageType) -> _Places:
    def of_kind(kind: object) -> tuple[str, ...]:
        return tuple(
            field.name
            for field in message.FIELDS
            if field.kind is kind
            and isinstance(field.element, MessageType)
            and _has_codes(field.element)
        )

    is_here = any(field.name == "error_code" for field in message.FIELDS)
    return _Places(is_here, of_kind(STRUCT), of_kind(ARRAY))


def _has_codes(message: MessageType) -> bool:
    places = _places(message)
    return places.is_here or bool(places.structs or places.arrays)
