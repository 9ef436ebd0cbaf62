"""Codecs of the smallest messages: each array has one element, and nothing else is unusual.

Most requests of producers are so small that the objects of a message cost as much as what is done
with them. These codecs are generated from the same declarations as all others, and give and take
the values themselves.

Rules:

- Only flexible versions have such codecs.
- A message is *single* if each of its arrays has one element, if no struct has tagged fields, and
  if what may be null is null, records aside. A string has at most ``LONGEST`` bytes.
- ``single_decoder`` gives the values of a single message in their order, without those that are
  null. It gives None for any other message, and for bytes that are no message: the decoder of all
  messages (``kwire.protocol.decoding``) then says what they are.
- ``single_encoder`` takes some values of a response; all others are the defaults. An array without
  one of these values in it is empty. It gives the whole frame of the response.
"""

from collections.abc import Callable, Collection, Iterator
from functools import cache
from struct import error as StructError
from typing import Any, TypeAlias

from kwire.protocol.generated import compile_function
from kwire.protocol.source import SourceWriter
from kwire.protocol.types import (
    ARRAY,
    Field,
    Message,
    MessageType,
    record_batches,
    string,
)
from kwire.protocol.wire import MalformedRequest, read_unsigned_varint

SingleDecoder: TypeAlias = Callable[[memoryview, int], tuple[Any, ...] | None]
SingleEncoder: TypeAlias = Callable[..., bytes]
"""(correlation id, the values in the order of the message) → the frame, with its size in front."""

LONGEST = 126
"""The bytes of a string whose length is one byte."""

_RUNTIME = {
    "read_unsigned_varint": read_unsigned_varint,
    "NO_MESSAGE": (StructError, IndexError, UnicodeDecodeError, MalformedRequest),
}


@cache
def single_decoder(message: type[Message], version: int) -> SingleDecoder | None:
    """The decoder of single messages that end with the frame; None in a version without tags."""
    writer = _DecoderWriter(message, version, 0)
    return writer.function() if writer.flexible else None


@cache
def single_encoder(message: type[Message], version: int, names: Collection[str]) -> SingleEncoder:
    """The encoder of single responses with values for the fields of these names."""
    encode: SingleEncoder = _EncoderWriter(message, version, names).function()
    return encode


class _DecoderWriter(SourceWriter):
    """Writes a decoder: one ``struct`` call for each run of bytes of fixed size."""

    def function(self) -> Any:
        """Write the whole function and compile it."""
        self.namespace.update(_RUNTIME)
        self.run: list[tuple[str, str, int]] = []  # (target, struct code, size)
        self.checks: list[str] = []  # of the run: what a message isn't single with
        self.values: list[str] = []
        with self.block("def decode(buffer, p):"):
            with self.block("try:"):
                self.read_fields(self.message)
                zeros = 0
                while self.run and self.run[-1][0] in self.checks:
                    self.checks.remove(self.run.pop()[0])
                    zeros += 1
                if self.run:
                    self.flush()
                # What has to be zero at the end is compared as a whole, and nothing may follow.
                self.emit(f"if buffer[p:] != {bytes(zeros)!r}: return None")
                self.emit(f"return {', '.join(self.values)}")
            with self.block("except NO_MESSAGE:"):
                self.emit("return None")
        filename = f"<decoder of single {self.message.__module__} {self.label}>"
        return compile_function("\n".join(self.lines), "decode", filename, self.namespace)

    def read_byte(self, condition: str) -> str:
        """Read one byte, for which no ``condition`` may hold; the name of its variable."""
        name = self.unique("n")
        self.run.append((name, "B", 1))
        self.checks.append(condition.format(name))
        return name

    def flush(self) -> None:
        """Read the pending bytes."""
        targets = ", ".join(target for target, _, _ in self.run)
        unpack = self.layout("".join(code for _, code, _ in self.run), "unpack_from")
        self.emit(f"{targets}, = {unpack}(buffer, p)")
        self.emit(f"p += {sum(size for _, _, size in self.run)}")
        if self.checks:
            self.emit(f"if {' or '.join(self.checks)}: return None")
        self.run, self.checks = [], []

    def read_fields(self, message: MessageType) -> None:
        """Read the fields of a struct, and that it has no tagged fields."""
        for field in message.FIELDS:
            if field.is_in(self.version) and field.tag is None:
                self.read_field(field)
        self.read_byte("{}")

    def read_field(self, field: Field) -> None:
        """Read one field; a value gets a variable."""
        kind = field.kind
        if kind is ARRAY:
            self.read_byte("{} != 2")
            assert isinstance(field.element, MessageType)
            self.read_fields(field.element)
        elif kind is record_batches:
            self.read_records(self.unique(field.name))
        elif field.is_nullable_in(self.version):
            self.read_byte("{}")
        elif kind is string:
            length = self.read_byte(f"not 1 <= {{}} <= {LONGEST + 1}")
            self.flush()
            name = self.unique(field.name)
            self.emit(f"q = p + {length} - 1")
            self.emit(f'{name} = str(buffer[p:q], "utf-8")')
            self.emit("p = q")
            self.values.append(name)
        else:
            assert kind.size, field.name
            name = self.unique(field.name)
            self.run.append((name, kind.code, kind.size))
            self.values.append(name)

    def read_records(self, name: str) -> None:
        """Read records, as a view, with their length."""
        length = self.read_byte("not {}")
        self.flush()
        with self.block(f"if {length} > 127:"):
            self.emit(f"{length}, p = read_unsigned_varint(buffer, p - 1)")
        self.emit(f"q = p + {length} - 1")
        self.emit(f"{name} = buffer[p:q]")
        self.emit("p = q")
        self.values.append(name)


class _EncoderWriter(SourceWriter):
    """Writes an encoder: one ``struct`` call for each run, and the strings between them."""

    def __init__(self, message: type[Message], version: int, names: Collection[str]) -> None:
        super().__init__(message, version, 0)
        self.names = names
        self.parameters: list[str] = []
        # (struct code, expression) of the run; the size comes when all is known.
        self.run: list[tuple[str, str]] = [("i", "size"), ("i", "correlation_id"), ("B", "0")]
        self.parts: list[str] = []
        self.size_bytes = 9
        self.lengths: list[str] = []

    def function(self) -> Any:
        """Write the whole function and compile it."""
        assert self.flexible
        self.write_fields(self.message)
        self.flush()
        with self.block(f"def encode(correlation_id, {', '.join(self.parameters)}):"):
            for name in self.lengths:
                self.emit(f"{name} = {name}.encode()")
            lengths = "".join(f" + len({name})" for name in self.lengths)
            self.emit(f"size = {self.size_bytes - 4}{lengths}")
            self.emit(f"return b''.join(({', '.join(self.parts)},))")
        filename = f"<encoder of single {self.message.__module__} {self.label} {self.names}>"
        return compile_function("\n".join(self.lines), "encode", filename, self.namespace)

    def flush(self) -> None:
        """Pack the pending values."""
        codes = "".join(code for code, _ in self.run)
        values = ", ".join(value for _, value in self.run)
        self.parts.append(f"{self.layout(codes, 'pack')}({values})")
        self.run = []

    def put(self, code: str, size: int, value: str) -> None:
        """Put a value of fixed size into the pending run."""
        self.run.append((code, value))
        self.size_bytes += size

    def write_fields(self, message: MessageType) -> None:
        """Write the fields of a struct, without tagged ones."""
        for field in message.FIELDS:
            if field.is_in(self.version) and field.tag is None:
                self.write_field(field)
        self.put("B", 1, "0")

    def write_field(self, field: Field) -> None:
        """Write one field: a parameter, or its default."""
        kind, is_given = field.kind, field.name in self.names
        if is_given:
            self.parameters.append(field.name)
        if kind is ARRAY and _names_in(field.element).isdisjoint(self.names):
            self.put("B", 1, "1")
        elif kind is ARRAY:
            self.put("B", 1, "2")
            assert isinstance(field.element, MessageType)
            self.write_fields(field.element)
        elif kind.size:
            self.put(kind.code, kind.size, field.name if is_given else self.default(field))
        elif is_given:
            assert kind is string, field.name
            self.put("B", 1, f"len({field.name}) + 1")
            self.flush()
            self.parts.append(field.name)
            self.lengths.append(field.name)
        else:
            self.put("B", 1, "0" if field.default is None else "1")


def _names_in(element: object) -> frozenset[str]:
    """The names of all fields in the elements of an array."""
    return frozenset(_names(element))


def _names(element: object) -> Iterator[str]:
    if isinstance(element, MessageType):
        for field in element.FIELDS:
            yield field.name
            yield from _names(field.element)
