"""Which records a search keeps: by a text, and by conditions on the fields of JSON values.

A condition is ``FIELD OPERATOR VALUE``, as in ``customer.city = Porto``, ``items.0.price >= 9.5``
or ``items.*.sku ~ A-``. ``*`` stands for any item, ``~`` for "contains"; ``and`` joins conditions.
A record without the field doesn't match. What is in a registry's framing is searched as its schema
says, too.
"""

import json
import operator
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, Protocol

from kwire.record.records import Record
from kwire.web.page.site import PageError

PLACES = ("anywhere", "key", "value", "headers")
MAX_TEXT = 200
MAX_JSON_BYTES = 64 * 1024
"""The largest value whose fields are looked at: meanwhile no other thread runs."""

FRAME_BYTES = 5
"""Confluent's framing: a zero byte, and the id of a schema."""

_CONDITION = re.compile(r"\s*([^\s=!<>~]+)\s*(!=|>=|<=|=|<|>|~)\s*(.*?)\s*", re.DOTALL)
_AND = re.compile(r"\s+and\s+", re.IGNORECASE)
_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class Condition(NamedTuple):
    """A condition on a field; ``wanted`` is the value as JSON where it is JSON, else the text."""

    path: tuple[str, ...]
    sign: str
    text: str
    wanted: Any

    def holds(self, document: object) -> bool:
        """Whether a field of the document fulfils it."""
        return any(self._fits(value) for value in _values(document, self.path))

    def _fits(self, value: object) -> bool:
        if self.sign == "~":
            return self.text.lower() in _text(value).lower()
        if _is_number(value) and _is_number(self.wanted):
            return _OPERATORS[self.sign](value, self.wanted)
        return _OPERATORS[self.sign](_text(value), _text(self.wanted))


def conditions_of(text: str) -> tuple[Condition, ...]:
    """The conditions in a text; PageError."""
    if not text.strip():
        return ()
    return tuple(_condition(part) for part in _AND.split(text.strip()))


def _condition(text: str) -> Condition:
    found = _CONDITION.fullmatch(text)
    if found is None:
        example = "customer.city = Porto and amount > 10"
        raise PageError(400, f"{text} is no condition on a field: write it as {example}")
    path, sign, value = found.groups()
    try:
        wanted = json.loads(value)
    except (ValueError, RecursionError):
        wanted = value
    return Condition(tuple(path.removeprefix("$.").split(".")), sign, _text(wanted), wanted)


def _values(document: object, path: tuple[str, ...]) -> Iterator[object]:
    """The values at a path."""
    found = [document]
    for name in path:
        below: list[object] = []
        for value in found:
            if isinstance(value, dict):
                below += value.values() if name == "*" else [value[name]] if name in value else []
            elif isinstance(value, list) and name == "*":
                below += value
            elif isinstance(value, list) and name.isdecimal() and len(name) < 10:
                below += value[int(name) : int(name) + 1]
        found = below
    return iter(found)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


class BySchema(Protocol):
    """Decodes keys and values by the schemas of a registry."""

    def document(self, content: bytes) -> Any:
        """What JSON has; None if it can't be read so."""

    def text(self, content: bytes) -> bytes:
        """The same as text; empty if it can't be read so."""


class Matcher(NamedTuple):
    """A search: a text in small letters, where to look for it, and conditions."""

    text: bytes
    place: str
    conditions: tuple[Condition, ...]
    by_schema: BySchema | None = None

    def keeps(self, record: Record) -> bool:
        """Whether a record has the text, and fulfils the conditions."""
        if self.text and not any(self.text in part.lower() for part in self._parts(record)):
            return False
        if not self.conditions:
            return True
        document = self._document(record.value)
        try:
            return document is not None and all(one.holds(document) for one in self.conditions)
        except RecursionError:  # so deep that JSON can read it, and can't write it
            return False

    def _parts(self, record: Record) -> Iterator[bytes]:
        """What is searched; a header as ``name=value``."""
        keys_and_values = [
            content
            for place, content in (("key", record.key), ("value", record.value))
            if content and self.place in ("anywhere", place)
        ]
        yield from keys_and_values
        if self.place in ("anywhere", "headers"):
            for name, value in record.headers:
                yield name.encode(errors="replace") + b"=" + (value or b"")
        if self.by_schema is not None:
            yield from map(self.by_schema.text, keys_and_values)

    def _document(self, value: bytes | None) -> object:
        """A value's JSON, or what its schema makes of it; None if it is something else."""
        found = self.by_schema.document(value) if value and self.by_schema is not None else None
        return _document(value) if found is None else found


def _document(value: bytes | None) -> object:
    """A value's JSON, without Confluent's framing; None if it is something else."""
    if not value or len(value) > MAX_JSON_BYTES:
        return None
    try:
        return json.loads(value[FRAME_BYTES:] if value[0] == 0 else value)
    except (ValueError, RecursionError):
        return None
