"""A small writer of Python source, shared by the generators of encoders and decoders."""

from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct
from typing import Any

from kwire.protocol.types import (
    ARRAY,
    MISSING,
    STRUCT,
    Field,
    Kind,
    Message,
    MessageType,
    Schema,
    binary,
    is_flexible,
    string,
)

COSTS = {string: 8, binary: 10}
"""How many bits to shift a length right for the number of elements that cost as much: 256 bytes of
text and 1 KiB of bytes take as long as one element, roughly."""


class SourceWriter:
    """The lines of a generated function, the current indentation, and the names that it uses.

    ``namespace`` has the globals of the generated function, which is for one ``version`` of
    ``message``. ``flexible`` says whether the version has compact lengths and tagged fields. The
    function is a generator if ``piece`` isn't 0: it yields after so many elements of arrays.
    """

    def __init__(self, message: type[Message], version: int, piece: int) -> None:
        self.message = message
        self.version = version
        self.piece = piece
        self.suffix = " in pieces" if piece else ""
        self.flexible = is_flexible(check_version(message, version), version)
        self.label = f"{message.__name__} v{version}"
        self.lines: list[str] = []
        self.indentation = ""
        self.namespace: dict[str, Any] = {}
        self.names_given = 0

    def emit(self, line: str) -> None:
        """Append one line at the current indentation."""
        self.lines.append(self.indentation + line)

    @contextmanager
    def block(self, opening: str) -> Iterator[None]:
        """Write ``opening`` (``if …:``, ``for …:``) and indent the lines written in the block."""
        self.emit(opening)
        self.indentation += "    "
        lines_before = len(self.lines)
        yield
        if len(self.lines) == lines_before:
            self.emit("pass")
        self.indentation = self.indentation[:-4]

    def begin_pieces(self) -> None:
        """Begin to count the elements of a piece, if the function works in pieces."""
        if self.piece:
            self.emit("yield")
            self.emit(f"left = {self.piece}")

    def end_element(self) -> None:
        """Count an element; yield if it is the last one of its piece, or several pieces long."""
        if self.piece:
            self.emit("left -= 1")
            with self.block("while left <= 0:"):
                self.emit(f"left += {self.piece}")
                self.emit("yield")

    def unique(self, stem: str) -> str:
        """A local name that no other part of the function uses."""
        self.names_given += 1
        return f"{stem}{self.names_given}"

    def class_name(self, message: MessageType) -> str:
        """The name of the class ``message`` in the generated source."""
        self.namespace[message.__name__] = message
        return message.__name__

    def layout(self, codes: str, method: str) -> str:
        """The name in the source of a Struct's ``pack`` or ``unpack_from``.

        ``codes`` are the struct codes of the values, which are big-endian.
        """
        name = f"{method}_{codes.replace('?', 'z')}"
        if name not in self.namespace:
            self.namespace[name] = getattr(Struct(f">{codes}"), method)
        return name

    def default(self, field: Field) -> str:
        """The source of the default of ``field``; it makes a new object for a mutable default."""
        if field.default is not MISSING:
            return repr(field.default)
        if field.kind is ARRAY:
            return "[]"
        assert isinstance(field.element, MessageType)
        return f"{self.class_name(field.element)}()"


def check_version(message: type[Message], version: int) -> type[Schema]:
    """``message`` itself; TypeError for a nested struct, ValueError if it lacks the version."""
    if not issubclass(message, Schema):
        raise TypeError(f"{message.__name__} is no message of its own")
    first, last = message.VERSIONS
    if not first <= version <= last:
        raise ValueError(f"{message.__name__} has versions {first} to {last}, not {version}")
    return message


def min_size_bytes(message: MessageType, version: int, flexible: bool) -> int:
    """The fewest bytes that a struct can take on the wire in this version."""
    size_bytes = int(flexible)
    for field in message.FIELDS:
        if field.is_in(version) and field.tag is None:
            if field.kind is STRUCT and not field.is_nullable_in(version):
                assert isinstance(field.element, MessageType)
                size_bytes += min_size_bytes(field.element, version, flexible)
            else:
                size_bytes += min_value_bytes(field.kind, flexible)
    return size_bytes


def min_value_bytes(kind: Kind, flexible: bool) -> int:
    """The fewest bytes that a value of a primitive type, an array or a null struct can take."""
    if kind.size:
        return kind.size
    if flexible or kind is STRUCT:
        return 1
    return 2 if kind.name == "string" else 4
