"""Values of JSON as Avro: the way back from ``avro_readable``.

Rules:

- What ``readable`` gives is taken: dates, times and decimals as texts, bytes as hex, a value of a
  union without its branch. Numbers are taken for dates and times, too.
- The first branch of a union that a value fits is its branch. A value that fits none may name its
  branch, as Avro's own JSON does: ``{"string": "a"}``.
- A field that is missing has its default. A field that the schema doesn't have is an error, for it
  would be lost.
"""

import struct
import uuid
from collections.abc import Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from kwire.schemas.avro_names import NAMED, Names, Schema, find_name, full_name, namespace_of
from kwire.schemas.undecodable import Unwritable, WrongSchema

_MAX_DEPTH = 64
_BITS = {"int": 31, "long": 63}
_PER_SECOND = {"millis": 10**3, "micros": 10**6, "nanos": 10**9}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def avro_bytes(schema: Schema, names: Names, value: Any) -> bytes:
    """The bytes of a value; Unwritable, WrongSchema."""
    writing = _Writing(names)
    writing.write(schema, "", value, "", 0)
    return bytes(writing.out)


class _Writing:
    """The bytes of one value, as far as they are written. ``path`` says where in the value."""

    def __init__(self, names: Names) -> None:
        self.out = bytearray()
        self._names = names
        self._is_default = False
        """Whether the value is a default of the schema, whose bytes are texts of Latin-1."""

    def write(self, schema: Schema, namespace: str, value: Any, path: str, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise Unwritable(f"{path or 'it'} is nested more than {_MAX_DEPTH} deep")
        if isinstance(schema, list):
            self._union(schema, namespace, value, path, depth)
        elif isinstance(schema, str):
            self._by_name(schema, {}, namespace, value, path, depth)
        elif isinstance(schema, dict) and isinstance(schema.get("type"), str):
            self._of_type(schema, schema["type"], namespace, value, path, depth)
        elif isinstance(schema, dict):
            self.write(schema.get("type"), namespace, value, path, depth + 1)
        else:
            raise WrongSchema("a type is neither a text, a list nor an object")

    def _union(
        self, branches: list[Schema], namespace: str, value: Any, path: str, depth: int
    ) -> None:
        problem: Unwritable | None = None
        for given, is_named in ((value, False), (value, True)):
            for index, branch in enumerate(branches):
                inner = given
                if is_named:
                    name = _name_of(branch, namespace)
                    if not isinstance(given, dict) or list(given) != [name]:
                        continue
                    inner = given[name]
                begin = len(self.out)
                try:
                    self._number(index)
                    self.write(branch, namespace, inner, path, depth + 1)
                    return
                except Unwritable as error:
                    del self.out[begin:]
                    if branch != "null" and problem is None:
                        problem = error
        raise problem or _unfit(path, "a value of its union", value)

    def _of_type(
        self,
        schema: dict[str, Any],
        kind: str,
        namespace: str,
        value: Any,
        path: str,
        depth: int,
    ) -> None:
        if kind in ("record", "error"):
            own = namespace_of(full_name(schema, namespace))
            self._record(schema, own, value, path, depth)
        elif kind in NAMED:
            self._enum_or_fixed(schema, kind, value, path)
        elif kind == "array":
            if not isinstance(value, list):
                raise _unfit(path, "a list", value)
            self._count(len(value))
            for place, one in enumerate(value):
                self.write(schema["items"], namespace, one, f"{path}[{place}]", depth + 1)
            self.out += b"\0" if value else b""
        elif kind == "map":
            if not isinstance(value, dict):
                raise _unfit(path, "an object", value)
            self._count(len(value))
            for key, one in value.items():
                self._sized(key.encode())
                self.write(schema["values"], namespace, one, f"{path}.{key}", depth + 1)
            self.out += b"\0" if value else b""
        else:
            self._by_name(kind, schema, namespace, value, path, depth)

    def _by_name(
        self,
        name: str,
        schema: Mapping[str, Any],
        namespace: str,
        value: Any,
        path: str,
        depth: int,
    ) -> None:
        logical = schema.get("logicalType")
        if name == "null":
            if value is not None:
                raise _unfit(path, "null", value)
        elif name == "boolean":
            if not isinstance(value, bool):
                raise _unfit(path, "true or false", value)
            self.out.append(value)
        elif name in _BITS:
            self._number(_integer(value, name, logical, path))
        elif name in ("float", "double"):
            self.out += struct.pack("<f" if name == "float" else "<d", _float(value, name, path))
        elif name == "string":
            if not isinstance(value, str):
                raise _unfit(path, "a text", value)
            self._sized(_encoded(value, path))
        elif name == "bytes":
            is_decimal = logical == "decimal" and not self._is_default
            unscaled = _unscaled(value, schema, path) if is_decimal else None
            self._sized(self._bytes(value, path) if unscaled is None else _shortest(unscaled))
        else:
            found, defined_in = self._names[find_name(name, namespace, self._names)]
            self.write(found, defined_in, value, path, depth + 1)

    def _record(
        self, schema: dict[str, Any], namespace: str, value: Any, path: str, depth: int
    ) -> None:
        if not isinstance(value, dict):
            raise _unfit(path, "an object", value)
        fields = {str(one["name"]): one for one in schema["fields"]}
        unknown = next((name for name in value if name not in fields), None)
        if unknown is not None:
            raise Unwritable(f"{path}.{unknown}: the schema has no such field".lstrip("."))
        for name, field in fields.items():
            inner = f"{path}.{name}".lstrip(".")
            if name in value:
                self.write(field["type"], namespace, value[name], inner, depth + 1)
            elif "default" in field:
                before, self._is_default = self._is_default, True
                self.write(field["type"], namespace, field["default"], inner, depth + 1)
                self._is_default = before
            else:
                raise Unwritable(f"{inner}: it is missing, and the schema has no default for it")

    def _enum_or_fixed(self, schema: dict[str, Any], kind: str, value: Any, path: str) -> None:
        if kind == "enum":
            symbols = schema.get("symbols", [])
            if value not in symbols:
                raise _unfit(path, f"a symbol of {schema.get('name')}", value)
            self._number(symbols.index(value))
            return
        size_bytes, logical = schema.get("size"), schema.get("logicalType")
        if not isinstance(size_bytes, int):
            raise WrongSchema(f"fixed {schema.get('name')} has no size")
        if logical == "decimal" and not self._is_default:
            unscaled = _unscaled(value, schema, path)
            try:
                self.out += unscaled.to_bytes(size_bytes, signed=True)
            except OverflowError:
                raise _unfit(path, f"a decimal of {size_bytes} bytes", value) from None
            return
        content = self._bytes(value, path, is_uuid=logical == "uuid")
        if len(content) != size_bytes:
            raise _unfit(path, f"hex of {size_bytes} bytes", value)
        self.out += content

    def _bytes(self, value: Any, path: str, *, is_uuid: bool = False) -> bytes:
        try:
            if self._is_default:
                return str(value).encode("latin-1")
            return uuid.UUID(value).bytes if is_uuid else bytes.fromhex(value)
        except (TypeError, ValueError, AttributeError):
            raise _unfit(path, "a uuid" if is_uuid else "bytes in hex", value) from None

    def _count(self, count: int) -> None:
        """The length of a block, which also is the end of an empty array or map."""
        self._number(count)

    def _sized(self, content: bytes) -> None:
        self._number(len(content))
        self.out += content

    def _number(self, number: int) -> None:
        left = (number << 1) ^ (number >> 63)
        while left >= 0x80:
            self.out.append(left & 0x7F | 0x80)
            left >>= 7
        self.out.append(left)


def _unfit(path: str, wanted: str, value: Any) -> Unwritable:
    shown = repr(value)
    shown = shown if len(shown) <= 60 else shown[:59] + "…"
    return Unwritable(f"{path or 'the value'}: {shown} is not {wanted}")


def _name_of(branch: Schema, namespace: str) -> str:
    """How Avro's JSON names a branch of a union."""
    if isinstance(branch, dict):
        kind = branch.get("type")
        return full_name(branch, namespace) if kind in NAMED else str(kind)
    return str(branch)


def _integer(value: Any, kind: str, logical: object, path: str) -> int:
    if isinstance(value, str):
        value = _from_time(value, logical, path)
    bits = _BITS[kind]
    is_whole = type(value) is int and -(1 << bits) <= value < 1 << bits
    if not is_whole:
        raise _unfit(path, f"a whole number of {bits + 1} bits", value)
    return int(value)


def _from_time(text: str, logical: object, path: str) -> int | str:
    """The number of a date or time; the text if it is of no such type."""
    kind, _, unit = str(logical).rpartition("-")
    try:
        if logical == "date":
            return date.fromisoformat(text).toordinal() - _EPOCH.toordinal()
        if unit not in _PER_SECOND or kind not in ("time", "timestamp", "local-timestamp"):
            return text
        whole, _, rest = text.removesuffix("Z").partition(".")
        if rest and not rest.isdecimal():
            raise ValueError(text)
        fraction = int((rest + "0" * 9)[:9]) * _PER_SECOND[unit] // 10**9
        if kind == "time":
            at = time.fromisoformat(whole)
            return (at.hour * 3600 + at.minute * 60 + at.second) * _PER_SECOND[unit] + fraction
        found = datetime.fromisoformat(whole)
        if kind == "timestamp" and not text.endswith("Z") and found.tzinfo is None:
            raise ValueError(text)
        found = found.replace(tzinfo=found.tzinfo or UTC)
    except ValueError:
        raise _unfit(path, f"a {logical}", text) from None
    since = found - _EPOCH
    return (since.days * 86_400 + since.seconds) * _PER_SECOND[unit] + fraction


def _float(value: Any, kind: str, path: str) -> float:
    if isinstance(value, str) and value in ("nan", "inf", "-inf"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _unfit(path, "a number", value)
    try:
        struct.pack("<f" if kind == "float" else "<d", value)
        return float(value)
    except OverflowError:
        raise _unfit(path, f"a number of a {kind}", value) from None


def _encoded(text: str, path: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise _unfit(path, "a text of whole characters", text) from None


def _unscaled(value: Any, schema: Mapping[str, Any], path: str) -> int:
    scale, precision = schema.get("scale", 0), schema.get("precision")
    try:
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            raise InvalidOperation
        number = Decimal(str(value))
        digits = number.as_tuple()
        if not isinstance(digits.exponent, int) or not isinstance(scale, int):
            raise InvalidOperation
        if abs(digits.exponent) > 1_000 or -digits.exponent > scale:
            raise InvalidOperation
        unscaled = int("".join(map(str, digits.digits)) + "0" * (scale + digits.exponent))
    except InvalidOperation:
        raise _unfit(path, f"a decimal with {scale} digits after its point", value) from None
    if isinstance(precision, int) and len(str(unscaled)) > precision:
        raise _unfit(path, f"a decimal of {precision} digits", value)
    return -unscaled if digits.sign else unscaled


def _shortest(number: int) -> bytes:
    return number.to_bytes(
        ((number if number >= 0 else ~number).bit_length() + 8) // 8, signed=True
    )
