"""Generates the source of decoders: one function per message and version, no loop over its fields.

Rules of the generated code:

- ``p`` is the position of the next byte, ``end`` the position after the last byte. One ``struct``
  call reads consecutive values of fixed size and the length that follows them.
- The decoder trusts no length and no count. Before it creates an object, it compares a length with
  the bytes that are left. Before it creates the elements of an array, it compares the fewest bytes
  that so many elements can take with the bytes that are left.
- All arrays of a message together hold at most ``room`` elements. The number of bytes alone is too
  weak a limit: a struct of two bytes becomes an object of a hundred bytes. Beyond ``room`` the
  decoder raises ``TooManyElements``, and the caller may decode again with more room.
- Four tagged fields cost as much as an element, and so do as many bytes of a long value as
  ``COSTS`` says. The decoder at once takes them off ``room``, a decoder in pieces off its piece.
- A decoder in pieces is a generator. It yields after every ``PIECE`` elements, and returns what the
  decoder at once returns. It copies a long value of bytes in steps, because the system makes the
  pages of the copy meanwhile: for 16 MB that takes 10 ms.
- The decoder raises only ``MalformedRequest`` and its subclass ``TooManyElements``. A read beyond
  the end raises ``struct.error`` or IndexError inside, which the decoder turns into
  ``MalformedRequest``.
"""

from io import BytesIO
from struct import error as StructError
from struct import unpack_from
from typing import Any

from kwire.protocol.generated import compile_function
from kwire.protocol.source import COSTS, SourceWriter, min_size_bytes, min_value_bytes
from kwire.protocol.types import (
    ARRAY,
    STRUCT,
    Field,
    Kind,
    Message,
    MessageType,
    binary,
    record_batches,
    string,
    uuid,
)
from kwire.protocol.wire import (
    MAX_BINARY_BYTES,
    MAX_ELEMENTS,
    MalformedRequest,
    TooManyElements,
    read_string_length,
    read_tagged_fields_count,
    read_unsigned_varint,
    skip_tagged_fields,
)

RUNTIME = {
    "BytesIO": BytesIO,
    "new": object.__new__,
    "unpack_from": unpack_from,
    "MAX_ELEMENTS": MAX_ELEMENTS,
    "MalformedRequest": MalformedRequest,
    "TooManyElements": TooManyElements,
    "read_string_length": read_string_length,
    "read_tagged_fields_count": read_tagged_fields_count,
    "read_unsigned_varint": read_unsigned_varint,
    "skip_tagged_fields": skip_tagged_fields,
    "NOT_ENOUGH": (StructError, IndexError),
    "NOT_TEXT": UnicodeDecodeError,
}


PIECE = 32
"""How many elements a decoder in pieces reads at a time, which takes some 25 microseconds."""

COPIED_BYTES = 64 * 1024
"""How many bytes of a value a decoder in pieces copies at a time, which takes some 40 microseconds.
"""

_TAGS_SHIFT = 2
"""How many bits to shift a number of tagged fields right: four take as long as an element."""


def generate_decoder(message: type[Message], version: int, *, in_pieces: bool = False) -> Any:
    """Generate the function ``decode(buffer, position, room) -> (message, position)``."""
    return DecoderWriter(message, version, in_pieces).function()


class DecoderWriter(SourceWriter):
    """Writes the decoder of one message in one version."""

    def __init__(self, message: type[Message], version: int, in_pieces: bool) -> None:
        super().__init__(message, version, PIECE if in_pieces else 0)
        self.namespace.update(RUNTIME)
        self.run: list[tuple[str, str, int]] = []  # (target, struct code, size), to be read

    def function(self) -> Any:
        """Write the whole function and compile it."""
        with self.block("def decode(buffer, position, room=MAX_ELEMENTS):"):
            with self.block("try:"):
                self.emit("end = len(buffer)")
                self.emit("p = position")
                self.begin_pieces()
                name = self.read_struct(self.message, "")
                self.flush()
                self.emit(f"return {name}, p")
            with self.block("except NOT_ENOUGH as error:"):
                self.emit(f"raise MalformedRequest('{self.label} is cut short') from error")
            with self.block("except NOT_TEXT as error:"):
                self.emit(f"raise MalformedRequest('{self.label}: text is not UTF-8') from error")
        filename = f"<decoder{self.suffix} of {self.message.__module__} {self.label}>"
        return compile_function("\n".join(self.lines), "decode", filename, self.namespace)

    def flush(self, length: str = "") -> None:
        """Read the pending values of fixed size; ``length`` is the struct code of ``n``, if any."""
        run = self.run
        self.run = []
        if not run and length == "B":
            self.emit("n = buffer[p]")
            self.emit("p += 1")
            return
        if length:
            run.append(("n", length, {"B": 1, "h": 2, "i": 4}[length]))
        if not run:
            return
        targets = ", ".join(target for target, _, _ in run)
        unpack = self.layout("".join(code for _, code, _ in run), "unpack_from")
        self.emit(f"{targets}{',' if len(run) == 1 else ''} = {unpack}(buffer, p)")
        self.emit(f"p += {sum(size for _, _, size in run)}")

    def fail_if(self, condition: str, path: str, problem: str) -> None:
        """Raise MalformedRequest when ``condition`` holds."""
        with self.block(f"if {condition}:"):
            self.emit(f"raise MalformedRequest('{self.label}: {path}: {problem}')")

    def read_struct(self, message: MessageType, path: str) -> str:
        """Read a struct into a new object; return the name of the variable that holds it."""
        name = self.unique("m")
        self.emit(f"{name} = new({self.class_name(message)})")
        tagged = []
        for field in message.FIELDS:
            target = f"{name}.{field.name}"
            here = field.is_in(self.version)
            if here and field.tag is None:
                self.read_value(field, target, f"{path}{field.name}")
            else:
                self.emit(f"{target} = {self.default(field)}")
                if here:
                    tagged.append(field)
        if self.flexible:
            self.read_tagged_fields(name, tagged, path)
        return name

    def read_value(self, field: Field, target: str, path: str) -> None:
        """Read one field into ``target``."""
        nullable = field.is_nullable_in(self.version)
        if field.kind is ARRAY:
            assert field.element is not None
            self.read_array(field.element, target, path, nullable)
        elif field.kind is STRUCT:
            assert isinstance(field.element, MessageType)
            null = None if not nullable else "n > 127" if field.tag is None else "n == 0"
            self.read_struct_field(field.element, target, path, null)
        else:
            self.read_primitive(field.kind, target, path, nullable)

    def read_struct_field(
        self, message: MessageType, target: str, path: str, null: str | None
    ) -> None:
        """Read a nested struct. One byte before a nullable struct says whether it is null.

        ``null`` is the condition for null, or None for a struct that isn't nullable. Null is a
        negative byte, or 0 where the field is tagged.
        """
        if null is None:
            self.emit(f"{target} = {self.read_struct(message, f'{path}.')}")
            return
        self.flush("B")
        with self.block(f"if {null}:"):
            self.emit(f"{target} = None")
        with self.block("else:"):
            self.emit(f"{target} = {self.read_struct(message, f'{path}.')}")
            self.flush()

    def read_primitive(self, kind: Kind, target: str, path: str, nullable: bool) -> None:
        """Read a value of fixed size, a string, bytes or records."""
        if kind.size:
            self.run.append((target, kind.code, kind.size))
            return
        self.read_length(kind)
        null = "n == 0" if self.flexible else "n < 0"
        if nullable:
            with self.block(f"if {null}:"):
                self.emit(f"{target} = None")
            with self.block("else:"):
                self.read_bytes(kind, target, path)
        else:
            self.fail_if(null, path, "null is not allowed")
            self.read_bytes(kind, target, path)

    def read_length(self, kind: Kind) -> None:
        """Read a length or count into ``n``; a compact one stays as on the wire, one too high."""
        if not self.flexible:
            self.flush("h" if kind is string else "i")
            return
        self.flush("B")
        read = "read_string_length" if kind is string else "read_unsigned_varint"
        with self.block("if n > 127:"):
            self.emit(f"n, p = {read}(buffer, p - 1)")

    def count_cost(self, shift: int, path: str) -> None:
        """Count ``n``, shifted right, as so many elements more."""
        if self.piece:
            self.emit(f"left -= n >> {shift}")
            return
        self.emit(f"room -= n >> {shift}")
        self.check_room(path)

    def check_room(self, path: str) -> None:
        """Raise TooManyElements when no room is left."""
        with self.block("if room < 0:"):
            self.emit(f"raise TooManyElements('{self.label}: {path}: too many elements')")

    def read_bytes(self, kind: Kind, target: str, path: str) -> None:
        """Read ``n`` bytes (``n - 1`` where lengths are compact) into ``target`` as ``kind``."""
        if kind in COSTS:
            with self.block(f"if n > {(1 << COSTS[kind]) - 1}:"):
                self.count_cost(COSTS[kind], path)
        self.emit("q = p + n - 1" if self.flexible else "q = p + n")
        self.fail_if("q > end", path, "longer than the message")
        if kind is binary:
            self.fail_if(f"q - p > {MAX_BINARY_BYTES}", path, "longer than 16 MiB")
            if self.piece:
                self.copy_in_steps(target)
                return
        value = {
            string: 'str(buffer[p:q], "utf-8")',
            binary: "bytes(buffer[p:q])",
            record_batches: "memoryview(buffer)[p:q]",
        }[kind]
        self.emit(f"{target} = {value}")
        self.emit("p = q")

    def copy_in_steps(self, target: str) -> None:
        """Copy the bytes up to ``q`` into ``target``; BytesIO gives its bytes without a copy."""
        with self.block(f"if q - p > {COPIED_BYTES}:"):
            self.emit("copy = BytesIO()")
            with self.block("while p < q:"):
                self.emit(f"n = min(p + {COPIED_BYTES}, q)")
                self.emit("copy.write(buffer[p:n])")
                self.emit("p = n")
                self.emit("yield")
            self.emit(f"{target} = copy.getvalue()")
            self.emit("del copy")
        with self.block("else:"):
            self.emit(f"{target} = bytes(buffer[p:q])")
            self.emit("p = q")

    def read_array(
        self, element: Kind | MessageType, target: str, path: str, nullable: bool
    ) -> None:
        """Read a count and that many elements into a new list."""
        self.read_length(ARRAY)
        null = "n == 0" if self.flexible else "n < 0"
        if not nullable:
            self.fail_if(null, path, "null is not allowed")
            self.read_elements(element, target, path)
            return
        with self.block(f"if {null}:"):
            self.emit(f"{target} = None")
        with self.block("else:"):
            self.read_elements(element, target, path)

    def read_elements(self, element: Kind | MessageType, target: str, path: str) -> None:
        """Read the elements of an array whose count is in ``n``."""
        if self.flexible:
            self.emit("n -= 1")
        if isinstance(element, Kind):
            min_bytes = min_value_bytes(element, self.flexible)
        else:
            min_bytes = max(1, min_size_bytes(element, self.version, self.flexible))
        beyond_end = "n > end - p" if min_bytes == 1 else f"n * {min_bytes} > end - p"
        self.fail_if(beyond_end, path, "more elements than bytes")
        self.emit("room -= n")
        self.check_room(path)
        if isinstance(element, Kind) and element.size:
            self.read_fixed_elements(element, target)
            return
        items = self.unique("items")
        self.emit(f"{target} = {items} = []")
        with self.block("for _ in range(n):"):
            if isinstance(element, MessageType):
                item = self.read_struct(element, f"{path}[].")
                self.flush()
            else:
                item = self.unique("item")
                self.read_primitive(element, item, f"{path}[]", nullable=False)
            self.emit(f"{items}.append({item})")
            self.end_element()

    def read_fixed_elements(self, element: Kind, target: str) -> None:
        """Read ``n`` values of fixed size by one call, or by one call for each piece."""
        if not self.piece:
            self.emit(f"{target} = {self.fixed_elements(element)}")
            self.emit(f"p += n * {element.size}")
            return
        items, stop = self.unique("items"), self.unique("stop")
        self.emit(f"{target} = {items} = []")
        self.emit(f"{stop} = n")
        with self.block(f"while {stop}:"):
            self.emit(f"n = {stop} if {stop} < {self.piece} else {self.piece}")
            self.emit(f"{items} += {self.fixed_elements(element)}")
            self.emit(f"p += n * {element.size}")
            self.emit(f"{stop} -= n")
            self.emit("yield")

    def fixed_elements(self, element: Kind) -> str:
        """The source of a list of the next ``n`` values of fixed size."""
        if element is uuid:
            return "[bytes(buffer[i : i + 16]) for i in range(p, p + n * 16, 16)]"
        return f"list(unpack_from('>%d{element.code}' % n, buffer, p))"

    def read_tagged_fields(self, name: str, fields: list[Field], path: str) -> None:
        """Read the tagged fields at the end of a struct; unknown ones are skipped."""
        self.flush("B")
        with self.block("if n:"):
            self.count_cost(_TAGS_SHIFT, f"{path}tagged fields")
            if not fields:
                self.emit("p = skip_tagged_fields(buffer, p, n, end)")
                return
            with self.block("if n > 127:"):
                self.emit("n, p = read_tagged_fields_count(buffer, p)")
            stop = self.unique("stop")
            with self.block("for _ in range(n):"):
                self.emit("tag, p = read_unsigned_varint(buffer, p)")
                self.emit("n, p = read_unsigned_varint(buffer, p)")
                self.emit(f"{stop} = p + n")
                self.fail_if(f"{stop} > end", f"{path}tagged field", "longer than the message")
                for index, field in enumerate(fields):
                    with self.block(f"{'el' if index else ''}if tag == {field.tag}:"):
                        self.read_value(field, f"{name}.{field.name}", f"{path}{field.name}")
                        self.flush()
                        self.fail_if(f"p != {stop}", f"{path}{field.name}", "wrong size")
                self.emit(f"p = {stop}")
