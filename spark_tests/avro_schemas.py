"""Avro schemas of every type with defaults, made by chance, and what Java makes of them."""

import random
import string
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from spark_tests.jvm import jvm_of

_LOGICAL = {
    "int": ("date", "time-millis"),
    "long": (
        *("timestamp-millis", "timestamp-micros", "timestamp-nanos", "time-micros"),
        *("local-timestamp-millis", "local-timestamp-micros", "local-timestamp-nanos"),
    ),
}
_PLAIN = ("null", "boolean", "int", "long", "float", "double", "bytes", "string")
_NESTED = ("array", "map", "record", "union")


class Schemas:
    """Makes types and a default of each; the same seed makes the same ones."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        self._count = 0

    def record(self, depth: int = 3) -> dict[str, Any]:
        """A record whose fields all have defaults."""
        return self._record(depth, with_all_defaults=True)[0]

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{kind.capitalize()}{self._count}"

    def _any(self, depth: int, kinds: tuple[str, ...] | None = None) -> tuple[Any, Any]:
        """A type, and a default of it as JSON has it."""
        found = kinds or (*_PLAIN, "fixed", "enum", "decimal", *(_NESTED if depth else ()))
        kind = self._chance.choice(found)
        makers: dict[str, Callable[[int], tuple[Any, Any]]] = {
            "array": self._array,
            "map": self._map,
            "record": self._record,
            "union": self._union,
        }
        return makers[kind](depth - 1) if kind in makers else self._scalar(kind)

    def _scalar(self, kind: str) -> tuple[Any, Any]:
        chance = self._chance
        if kind == "null":
            return kind, None
        if kind == "boolean":
            return kind, chance.random() < 0.5
        if kind in ("int", "long"):
            return self._number(kind)
        if kind in ("float", "double"):
            return kind, chance.choice([0, -1.5, 3, 1e30, 0.1, -7])
        if kind == "string":
            texts = ["", "é", "\u20ac\U0001f600", "NaN", "a" * 99, "\\\"'", "\x00"]
            return kind, chance.choice(texts)
        if kind == "bytes":
            return kind, self._bytes(chance.randrange(5))
        if kind == "enum":
            symbols = chance.sample(string.ascii_uppercase, 3)
            return {"type": kind, "name": self._name(kind), "symbols": symbols}, symbols[1]
        size = chance.randrange(1, 13)
        fixed = {"type": "fixed", "name": self._name("fixed"), "size": size}
        if kind == "fixed":
            return fixed, self._bytes(size)
        inner = fixed if chance.random() < 0.5 else {"type": "bytes"}
        decimal = {"logicalType": "decimal", "precision": 38, "scale": chance.randrange(9)}
        if inner is fixed:
            decimal["precision"] = max(1, size * 2)
            decimal["scale"] = 1
        return inner | decimal, self._bytes(size)

    def _bytes(self, size: int) -> str:
        return self._chance.randbytes(size).decode("iso-8859-1")

    def _number(self, kind: str) -> tuple[Any, Any]:
        chance = self._chance
        if chance.random() < 0.4:
            top = 1 << (31 if kind == "int" else 63)
            return kind, chance.choice([0, -1, 5, top - 1, -top])
        logical = chance.choice(_LOGICAL[kind])
        top = 86_400_000 if logical.startswith("time-") else 10_000 if kind == "int" else 1 << 45
        return {"type": kind, "logicalType": logical}, chance.randrange(top)

    def _array(self, depth: int) -> tuple[Any, Any]:
        items, default = self._any(depth, None if depth else ("int", "string", "decimal"))
        if items == "null":
            items, default = "boolean", True
        return {"type": "array", "items": items}, [default] * self._chance.randrange(3)

    def _map(self, depth: int) -> tuple[Any, Any]:
        values, default = self._any(depth)
        keys = self._chance.sample(["", "a", "é", "k k"], self._chance.randrange(3))
        return {"type": "map", "values": values}, dict.fromkeys(keys, default)

    def _record(self, depth: int, *, with_all_defaults: bool = False) -> tuple[Any, Any]:
        fields, whole = [], {}
        for number in range(self._chance.randrange(1, 5)):
            name = f"f{number}"
            of, default = self._any(depth)
            field = {"name": name, "type": of}
            if with_all_defaults or self._chance.random() < 0.5:
                field["default"] = default
            if "default" not in field or self._chance.random() < 0.5:
                whole[name] = default
            fields.append(field)
        if not whole and all(one["type"] == "null" for one in fields):
            fields.append({"name": "some", "type": "int", "default": 1})
        return {"type": "record", "name": self._name("record"), "fields": fields}, whole

    def _union(self, depth: int) -> tuple[Any, Any]:
        """A union, and a default for which Java takes the right type.

        It takes the first one whose default looks alike in JSON, or one of a named type. So the
        types look different from each other, and named ones stand behind that of the default.
        """
        chance = self._chance
        texts = ("string", "bytes", "enum", "fixed", "decimal")
        like = [("null",), ("boolean",), ("int", "long", "double"), texts]
        found = [self._any(0, one) for one in chance.sample(like, chance.randrange(2, 4))]
        wanted = chance.choice(found)
        if depth > 0 and chance.random() < 0.5:
            wanted = self._any(depth, ("array", "map", "record"))
            found.append(wanted)
        if any(isinstance(of, dict) and of["type"] not in _PLAIN for of, _ in found):
            found.sort(key=lambda one: one is not wanted)
        return [of for of, _ in found], wanted[1]


def resolved_by_java(spark: SparkSession, writer: str, reader: str, value: bytes) -> bytes:
    """A value that was written by one schema, as Java reads it by another and writes it again."""
    jvm = jvm_of(spark)
    avro = jvm.org.apache.avro
    old = avro.Schema.Parser().parse(writer)
    new = avro.Schema.Parser().parse(reader)
    decoder = avro.io.DecoderFactory.get().binaryDecoder(bytearray(value), None)
    record = avro.generic.GenericDatumReader(old, new).read(None, decoder)
    out = jvm.java.io.ByteArrayOutputStream()
    encoder = avro.io.EncoderFactory.get().binaryEncoder(out, None)
    avro.generic.GenericDatumWriter(new).write(record, encoder)
    encoder.flush()
    return bytes(out.toByteArray())
