"""Values of Avro as what JSON has, for people to read, within limits.

Rules:

- A value is read by the schema that it was written with. That schema may be recursive.
- The schema and the value may both be hostile. A value is read in at most ``MAX_PARTS`` steps and
  ``MAX_DEPTH`` deep, so a few bytes can't stand for 2^60 items, nor fill the stack. fastavro has no
  such limits, which is why this module reads the bytes itself.
- Dates, times and decimals are texts as people write them; bytes are hex. A value of a union stands
  without its branch.
- Bytes left over are an error: the value was written with another schema.
"""

import math
import struct
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from kwire.schemas.avro_names import NAMED, Names, Schema, find_name, full_name, namespace_of
from kwire.schemas.undecodable import Undecodable, WrongSchema

MAX_PARTS = 20_000
MAX_DEPTH = 64
_MAX_DECIMAL_BYTES = 64
_MAX_SCALE = 1000
_MAX_VARINT_BYTES = 10
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PER_SECOND = {"millis": 10**3, "micros": 10**6, "nanos": 10**9}


def readable(schema: Schema, names: Names, value: bytes) -> Any:
    """The value as dicts, lists, texts, numbers and None; Undecodable, WrongSchema."""
    reading = _Reading(names, value)
    found = reading.read(schema, "", 0)
    if reading.left:
        raise Undecodable(f"{reading.left} bytes are left over: another schema wrote it")
    return found


class _Reading:
    """The bytes of one value, and how far they are read."""

    def __init__(self, names: Names, value: bytes) -> None:
        self._names = names
        self._value = value
        self._position = 0
        self._parts = 0
        self._kinds: Mapping[str, Callable[[], Any]] = {
            "null": lambda: None,
            "boolean": lambda: self._bytes(1) != b"\0",
            "int": self._number,
            "long": self._number,
            "float": lambda: _finite(struct.unpack("<f", self._bytes(4))[0]),
            "double": lambda: _finite(struct.unpack("<d", self._bytes(8))[0]),
            "bytes": lambda: self._sized().hex(),
            "string": lambda: self._sized().decode(errors="replace"),
        }

    @property
    def left(self) -> int:
        """How many bytes aren't read."""
        return len(self._value) - self._position

    def read(self, schema: Schema, namespace: str, depth: int) -> Any:
        """The next value, of this schema, which stands in this namespace."""
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise Undecodable(f"it has more than {MAX_PARTS:,} parts")
        if depth > MAX_DEPTH:
            raise Undecodable(f"it is nested more than {MAX_DEPTH} deep")
        if isinstance(schema, list):
            branch = self._number()
            if not 0 <= branch < len(schema):
                raise Undecodable(f"its union has no branch {branch}: another schema wrote it")
            return self.read(schema[branch], namespace, depth + 1)
        if isinstance(schema, str):
            return self._by_name(schema, namespace, depth)
        if not isinstance(schema, dict):
            raise WrongSchema("a type is neither a text, a list nor an object")
        kind = schema.get("type")
        if isinstance(kind, str):
            return self._of_type(schema, kind, namespace, depth)
        return self.read(kind, namespace, depth + 1)

    def _of_type(self, schema: dict[str, Any], kind: str, namespace: str, depth: int) -> Any:
        if kind in NAMED:
            return self._named(schema, kind, namespace_of(full_name(schema, namespace)), depth)
        if kind == "array":
            return self._items(lambda: self.read(schema["items"], namespace, depth + 1))
        if kind == "map":
            return dict(self._items(lambda: self._entry(schema["values"], namespace, depth)))
        logical = schema.get("logicalType")
        if kind == "bytes" and logical == "decimal":
            return _decimal(self._sized(), schema)
        found = self._by_name(kind, namespace, depth)
        return _as_time(found, logical) if kind in ("int", "long") else found

    def _by_name(self, name: str, namespace: str, depth: int) -> Any:
        read = self._kinds.get(name)
        if read is not None:
            return read()
        schema, defined_in = self._names[find_name(name, namespace, self._names)]
        return self.read(schema, defined_in, depth + 1)

    def _named(self, schema: dict[str, Any], kind: str, namespace: str, depth: int) -> Any:
        if kind == "enum":
            symbols, index = schema.get("symbols", ()), self._number()
            if not 0 <= index < len(symbols):
                raise Undecodable(f"its enum has no symbol {index}: another schema wrote it")
            return symbols[index]
        if kind == "fixed":
            return _fixed(self._bytes(_size(schema)), schema)
        return {
            str(one["name"]): self.read(one["type"], namespace, depth + 1)
            for one in schema["fields"]
        }

    def _items(self, read: Callable[[], Any]) -> list[Any]:
        """The items of an array's or a map's blocks."""
        found = []
        while count := self._number():
            if count < 0:
                count = -count
                self._number()  # the size of the block in bytes
            if count > MAX_PARTS:
                raise Undecodable(f"it has more than {MAX_PARTS:,} parts")
            found += [read() for _ in range(count)]
        return found

    def _entry(self, values: Schema, namespace: str, depth: int) -> tuple[str, Any]:
        key = self._sized().decode(errors="replace")
        return key, self.read(values, namespace, depth + 1)

    def _number(self) -> int:
        number = shift = 0
        for byte in self._value[self._position : self._position + _MAX_VARINT_BYTES]:
            number |= (byte & 0x7F) << shift
            shift += 7
            self._position += 1
            if byte < 0x80:
                return (number >> 1) ^ -(number & 1)
        raise Undecodable("it is cut off")

    def _sized(self) -> bytes:
        return self._bytes(self._number())

    def _bytes(self, size_bytes: int) -> bytes:
        if not 0 <= size_bytes <= self.left:
            raise Undecodable("it is cut off")
        self._position += size_bytes
        return self._value[self._position - size_bytes : self._position]


def _finite(number: float) -> float | str:
    """A number that JSON has, or the text of one that it hasn't."""
    return number if math.isfinite(number) else str(number)


def _size(schema: dict[str, Any]) -> int:
    size_bytes = schema.get("size")
    if not isinstance(size_bytes, int):
        raise WrongSchema(f"fixed {schema.get('name')} has no size")
    return size_bytes


def _fixed(content: bytes, schema: dict[str, Any]) -> str:
    logical = schema.get("logicalType")
    if logical == "decimal":
        return _decimal(content, schema)
    return (
        str(uuid.UUID(bytes=content)) if logical == "uuid" and len(content) == 16 else content.hex()
    )


def _decimal(content: bytes, schema: dict[str, Any]) -> str:
    scale = schema.get("scale", 0)
    if len(content) > _MAX_DECIMAL_BYTES or not isinstance(scale, int) or abs(scale) > _MAX_SCALE:
        return content.hex()
    unscaled = int.from_bytes(content, signed=True)
    digits = tuple(map(int, str(abs(unscaled))))
    return f"{Decimal((unscaled < 0, digits, -scale)):f}"


def _as_time(number: int, logical: object) -> int | str:
    """A date or a time as ISO 8601 has it; the number if it is none, or beyond all calendars."""
    kind, _, unit = str(logical).rpartition("-")
    try:
        if logical == "date":
            return (_EPOCH + timedelta(days=number)).date().isoformat()
        if unit not in _PER_SECOND or kind not in ("time", "timestamp", "local-timestamp"):
            return number
        seconds, rest = divmod(number, _PER_SECOND[unit])
        at = _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return number
    text = f"{at:%H:%M:%S}" if kind == "time" else f"{at:%Y-%m-%dT%H:%M:%S}"
    text += f".{rest:0{len(str(_PER_SECOND[unit])) - 1}d}"
    return f"{text}Z" if kind == "timestamp" else text
