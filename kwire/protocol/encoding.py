"""Generates the source of encoders: one function per message and version, no loop over its fields.

Rules of the generated code:

- The encoder appends bytes to ``out``. One ``struct`` call packs consecutive values of fixed size
  and the length that follows them. An empty set of tagged fields is one zero byte in that call.
- File slices are not copied: the encoder writes their length and notes them in ``slices``.
- The encoder skips a field that the version lacks, if the field is ignorable or has its default.
  Any other value that it can't write raises ``UnencodableMessage``; ``out`` then holds a part of
  the message.
- An encoder in pieces is a generator, which yields after every ``PIECE`` elements. A long value
  costs as much as several elements (``COSTS``).
"""

from struct import error as StructError
from struct import pack
from typing import Any

from kwire.protocol.generated import compile_function
from kwire.protocol.source import COSTS, SourceWriter
from kwire.protocol.types import (
    ARRAY,
    MISSING,
    STRUCT,
    Field,
    Kind,
    Message,
    MessageType,
    record_batches,
    string,
    uuid,
)
from kwire.protocol.wire import (
    UnencodableMessage,
    append_records,
    append_string_length,
    append_unsigned_varint,
)

RUNTIME = {
    "pack": pack,
    "append_records": append_records,
    "append_string_length": append_string_length,
    "append_unsigned_varint": append_unsigned_varint,
    "UnencodableMessage": UnencodableMessage,
    "UNFIT": (StructError, TypeError, AttributeError, UnicodeEncodeError, OverflowError),
}


PIECE = 32
"""How many elements an encoder in pieces writes at a time, which takes some 15 microseconds."""


def generate_encoder(message: type[Message], version: int, *, in_pieces: bool = False) -> Any:
    """Generate the function ``encode(message, out, slices)`` of one version."""
    return EncoderWriter(message, version, in_pieces).function()


class EncoderWriter(SourceWriter):
    """Writes the encoder of one message in one version."""

    def __init__(self, message: type[Message], version: int, in_pieces: bool) -> None:
        super().__init__(message, version, PIECE if in_pieces else 0)
        self.namespace.update(RUNTIME)
        self.run: list[tuple[str, str]] = []  # (expression, struct code), to be packed
        self.out = "out"

    def function(self) -> Any:
        """Write the whole function and compile it."""
        with self.block("def encode(message, out, slices):"):
            with self.block("try:"):
                self.begin_pieces()
                self.write_struct(self.message, "message", "")
                self.flush()
            with self.block("except UNFIT as error:"):
                self.emit(f"raise UnencodableMessage(f'{self.label}: {{error}}') from error")
        filename = f"<encoder{self.suffix} of {self.message.__module__} {self.label}>"
        return compile_function("\n".join(self.lines), "encode", filename, self.namespace)

    def flush(self) -> None:
        """Pack the pending values of fixed size."""
        run = self.run
        self.run = []
        codes = "".join(code for _, code in run)
        if not codes.strip("x"):
            if codes == "x":
                self.emit(f"{self.out}.append(0)")
            elif codes:
                self.emit(f"{self.out} += {bytes(len(codes))!r}")
            return
        values = ", ".join(value for value, code in run if code != "x")
        self.emit(f"{self.out} += {self.layout(codes, 'pack')}({values})")

    def fail_if(self, condition: str, path: str, problem: str) -> None:
        """Raise UnencodableMessage when ``condition`` holds."""
        with self.block(f"if {condition}:"):
            self.emit(f"raise UnencodableMessage('{self.label}: {path}: {problem}')")

    def write_struct(self, message: MessageType, name: str, path: str) -> None:
        """Write the fields of the object in the variable ``name``."""
        tagged = []
        for field in message.FIELDS:
            value = f"{name}.{field.name}"
            if not field.is_in(self.version):
                if not field.ignorable:
                    changed = self.is_not_default(field, value)
                    self.fail_if(changed, f"{path}{field.name}", "not in this version")
            elif field.tag is not None:
                tagged.append(field)
            else:
                self.write_value(field, value, f"{path}{field.name}")
        if self.flexible:
            self.write_tagged_fields(tagged, name, path)

    def is_not_default(self, field: Field, value: str) -> str:
        """The source of the condition that ``value`` differs from the default of ``field``."""
        if field.default is None:
            if field.kind is STRUCT and not field.is_nullable_in(self.version):
                assert isinstance(field.element, MessageType)
                default = f"DEFAULT_{self.class_name(field.element)}"
                self.namespace[default] = field.element()
                return f"{value} is not None and {value} != {default}"
            if field.kind is STRUCT and field.tag is not None:
                # Kafka's default is an empty struct here, so null has to be written.
                return "True"
            return f"{value} is not None"
        if field.default is MISSING and field.kind is ARRAY:
            return f"{value} is None or {value}" if field.nullable_since == 0 else value
        return f"{value} != {self.default(field)}"

    def write_value(self, field: Field, value: str, path: str) -> None:
        """Write one field of any kind."""
        nullable = field.is_nullable_in(self.version)
        if field.kind.size:
            self.write_fixed(field.kind, value, path)
            return
        name = self.unique("v")
        self.emit(f"{name} = {value}")
        if not nullable:
            self.write_present(field.kind, field.element, name, path)
            return
        self.flush()
        with self.block(f"if {name} is None:"):
            self.emit(f"{self.out} += {self.null(field)!r}")
        with self.block("else:"):
            if field.kind is STRUCT:
                self.emit(f"{self.out}.append(1)")
            self.write_present(field.kind, field.element, name, path)
            self.flush()

    def null(self, field: Field) -> bytes:
        """The bytes of null, in place of a value of variable length."""
        kind = field.kind
        if kind is STRUCT:
            return b"\xff" if field.tag is None else b"\0"
        if self.flexible:
            return b"\0"
        return b"\xff\xff" if kind is string else b"\xff\xff\xff\xff"

    def write_fixed(self, kind: Kind, value: str, path: str) -> None:
        """Put a value of fixed size into the pending run."""
        if kind is uuid:
            name = self.unique("v")
            self.emit(f"{name} = {value}")
            self.fail_if(f"len({name}) != 16", path, "a uuid has 16 bytes")
            value = name
        self.run.append((value, kind.code))

    def write_present(
        self, kind: Kind, element: Kind | MessageType | None, name: str, path: str
    ) -> None:
        """Write a value of variable length that isn't null; it is in the variable ``name``."""
        if kind is STRUCT:
            assert isinstance(element, MessageType)
            self.write_struct(element, name, f"{path}.")
        elif kind is ARRAY:
            assert element is not None
            self.write_array(element, name, path)
        elif kind is record_batches:
            self.flush()
            with self.block(f"if {name} == b'':"):
                self.emit(f"{self.out} += {bytes([1]) if self.flexible else bytes(4)!r}")
            with self.block("else:"):
                self.emit(f"append_records({self.out}, slices, {name}, {self.flexible})")
        else:
            if kind is string:
                self.emit(f"{name} = {name}.encode()")
            self.write_length(kind, name)
            self.emit(f"{self.out} += {name}")
            if self.piece:
                self.emit(f"left -= len({name}) >> {COSTS[kind]}")

    def write_length(self, kind: Kind, name: str) -> None:
        """Write the length of a string or bytes, or the count of an array."""
        if not self.flexible:
            self.run.append((f"len({name})", "h" if kind is string else "i"))
            self.flush()
            return
        self.flush()
        append = "append_string_length" if kind is string else "append_unsigned_varint"
        self.emit(f"n = len({name}) + 1")
        with self.block("if n < 128:"):
            self.emit(f"{self.out}.append(n)")
        with self.block("else:"):
            self.emit(f"{append}({self.out}, n)")

    def write_array(self, element: Kind | MessageType, name: str, path: str) -> None:
        """Write a count and the elements."""
        self.write_length(ARRAY, name)
        if isinstance(element, Kind) and element.size and element is not uuid:
            self.write_fixed_elements(element, name)
            return
        item = self.unique("m")
        with self.block(f"for {item} in {name}:"):
            if isinstance(element, MessageType):
                self.write_struct(element, item, f"{path}[].")
            elif element is uuid:
                self.write_fixed(element, item, f"{path}[]")
            else:
                self.write_present(element, None, item, f"{path}[]")
            self.flush()
            self.end_element()

    def write_fixed_elements(self, element: Kind, name: str) -> None:
        """Write values of fixed size by one call, or by one call for each piece."""
        if not self.piece:
            self.emit(f"{self.out} += pack('>%d{element.code}' % len({name}), *{name})")
            return
        part = self.unique("part")
        with self.block(f"for i in range(0, len({name}), {self.piece}):"):
            self.emit(f"{part} = {name}[i : i + {self.piece}]")
            self.emit(f"{self.out} += pack('>%d{element.code}' % len({part}), *{part})")
            self.emit("yield")

    def write_tagged_fields(self, fields: list[Field], name: str, path: str) -> None:
        """Write the tagged fields that aren't the default, ordered by tag."""
        if not fields:
            self.run.append(("", "x"))
            return
        self.flush()
        fields = sorted(fields, key=lambda field: field.tag or 0)
        conditions = [self.is_not_default(field, f"{name}.{field.name}") for field in fields]
        absent = [
            f"{name}.{field.name} is None"
            for field, differs in zip(fields, conditions, strict=True)
            if differs.startswith(f"{name}.{field.name} is not None")
        ]
        if len(absent) == len(fields):
            with self.block(f"if {' and '.join(absent)}:"):
                self.emit(f"{self.out}.append(0)")
            with self.block("else:"):
                self.write_present_tags(fields, name, path)
        else:
            self.write_present_tags(fields, name, path)

    def write_present_tags(self, fields: list[Field], name: str, path: str) -> None:
        """Write the tagged fields that aren't the default; ``fields`` are ordered by tag."""
        flags = [self.unique("has") for _ in fields]
        for field, flag in zip(fields, flags, strict=True):
            self.emit(f"{flag} = {self.is_not_default(field, f'{name}.{field.name}')}")
        with self.block(f"if not ({' or '.join(flags)}):"):
            self.emit(f"{self.out}.append(0)")
        with self.block("else:"):
            count = " + ".join(f"bool({flag})" for flag in flags)
            self.emit(f"{self.out}.append({count})")
            for field, flag in zip(fields, flags, strict=True):
                with self.block(f"if {flag}:"):
                    self.write_tagged_field(field, name, path)

    def write_tagged_field(self, field: Field, name: str, path: str) -> None:
        """Write one tagged field: its tag, its size and its value."""
        around, self.out = self.out, self.unique("tagged")
        self.emit(f"{self.out} = bytearray()")
        self.write_value(field, f"{name}.{field.name}", f"{path}{field.name}")
        self.flush()
        inside, self.out = self.out, around
        self.emit(f"append_unsigned_varint({around}, {field.tag})")
        self.emit(f"append_unsigned_varint({around}, len({inside}))")
        self.emit(f"{around} += {inside}")
