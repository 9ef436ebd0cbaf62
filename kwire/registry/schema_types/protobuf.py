"""Protobuf: a schema, its canonical and its normalized text.

Rules:

- A schema is the text of a ``.proto`` file, which ``protobuf_compiler`` compiles in a process, or
  a file's descriptor in base64, as Confluent's clients for Python and others send it. Both have one
  canonical text: ``protobuf_text`` writes it from the descriptor. Comments aren't part of it.
- proto2 and proto3; editions are refused.
- An import is a reference of that name, a file of ``google/protobuf``, or one of those that
  Confluent's registry knows without a reference.
- Protobuf's own library checks a descriptor: names, numbers, types.
"""

import re
from base64 import b64decode
from collections.abc import Mapping
from functools import cached_property
from subprocess import SubprocessError
from typing import Any

from kwire.config.extras import needs
from kwire.registry.schema_types.parsed import (
    MAX_PARTS,
    Incompatibility,
    InvalidSchema,
    NoSuchType,
    ParsedSchema,
    all_references,
)
from kwire.registry.schema_types.protobuf_compatibility import unreadable
from kwire.registry.schema_types.protobuf_text import written
from kwire.schemas.protobuf_compiler import KNOWN, compile_text
from kwire.schemas.undecodable import WrongSchema

_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+={0,2}\Z")
"""No text of a ``.proto`` file is like that: each statement ends with ``;`` or ``}``."""
MAX_DESCRIPTOR_BYTES = 256 << 10
"""Two bytes of a descriptor may be a message, and nobody has a turn while the library reads it."""

_MAIN = "kwire_schema.proto"
_OPTIONS = "google/protobuf/descriptor.proto"


class ProtobufSchema(ParsedSchema):
    """A schema of Protobuf."""

    type = "PROTOBUF"

    def __init__(
        self, text: str, references: Mapping[str, ParsedSchema], files: list[bytes], pool: Any
    ) -> None:
        super().__init__(text, references)
        self.files = files
        """The descriptors of the files, each after those that it imports; its own is the last."""
        self.pool = pool
        """What finds the messages of these files, a DescriptorPool."""

    @cached_property
    def canonical(self) -> str:
        """As the module says."""
        return written(self.files[-1], self.pool)

    @cached_property
    def normalized(self) -> str:
        """As the canonical text, with imports by name and fields by number."""
        return written(self.files[-1], self.pool, is_normal=True)

    @property
    def file(self) -> Any:
        """The FileDescriptor of the schema itself."""
        return self.pool.FindFileByName(_MAIN)

    def unreadable_of(self, writer: ParsedSchema) -> list[Incompatibility]:
        """See ``protobuf_compatibility``."""
        assert isinstance(writer, ProtobufSchema)
        return unreadable(self.file, writer.file)


def parse(text: str, references: Mapping[str, ParsedSchema]) -> ProtobufSchema:
    """Parse a schema within the limits of ``parsed``; InvalidSchema.

    A text takes about 100 ms, for the process that compiles it.
    """
    try:
        from google.protobuf import descriptor_pool
    except ImportError as error:
        raise NoSuchType(f"Protobuf: it {needs('registry', 'protobuf')}") from error

    used = [
        (name, one) for name, one in all_references(references) if isinstance(one, ProtobufSchema)
    ]
    files = _of_base64(text, used) if _is_base64(text) else _of_text(text, used)
    _check(files[-1])
    pool = descriptor_pool.DescriptorPool()
    try:
        for file in files:
            pool.AddSerializedFile(file)
        pool.FindFileByName(_MAIN)
    except (TypeError, KeyError) as error:
        raise InvalidSchema(f"it is no schema of Protobuf: {_line(error)}") from error
    return ProtobufSchema(text, references, files, pool)


def _is_base64(text: str) -> bool:
    return _BASE64.match(text.strip()) is not None


def _of_text(text: str, used: list[tuple[str, ProtobufSchema]]) -> list[bytes]:
    texts = tuple((name, one.canonical if _is_base64(one.text) else one.text) for name, one in used)
    try:
        compiled = compile_text(text, texts)
    except WrongSchema as error:
        raise _refusal(error) from error
    except SubprocessError as error:
        raise InvalidSchema("to compile it takes too long") from error
    except ValueError as error:  # an import whose name no file can have
        raise InvalidSchema(_line(error)) from error
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet.FromString(compiled).file
    return [file.SerializeToString() for file in files]


def _of_base64(text: str, used: list[tuple[str, ProtobufSchema]]) -> list[bytes]:
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        content = b64decode("".join(text.split()))
        if len(content) > MAX_DESCRIPTOR_BYTES:
            raise InvalidSchema(f"its descriptor has more than {MAX_DESCRIPTOR_BYTES >> 10} KiB")
        own = descriptor_pb2.FileDescriptorProto.FromString(content)
    except (DecodeError, ValueError) as error:
        raise InvalidSchema("it is neither a .proto file nor a descriptor in base64") from error
    own.name = _MAIN
    own.ClearField("source_code_info")
    by_name: dict[str, bytes] = {}
    for name, one in used:
        for file in one.files:
            found = descriptor_pb2.FileDescriptorProto.FromString(file)
            found.name = name if file is one.files[-1] else found.name
            by_name.setdefault(found.name, found.SerializeToString())
    wanted = [name for name in own.dependency if name not in by_name]
    if wanted:
        by_name = {**_known(wanted), **by_name}
    return [*by_name.values(), own.SerializeToString()]


def _known(names: list[str]) -> dict[str, bytes]:
    """The files that need no reference, with what they import; InvalidSchema for others."""
    for name in names:
        if name not in KNOWN and not name.startswith("google/protobuf/"):
            raise InvalidSchema(f"it imports {name[:100]}, which isn't among its references")
    from google.protobuf import descriptor_pb2

    imports = "".join(f'import "{name}"; ' for name in names)
    try:
        compiled = compile_text(f'syntax = "proto3"; {imports}')
    except WrongSchema as error:
        raise _refusal(error) from error
    files = descriptor_pb2.FileDescriptorSet.FromString(compiled).file[:-1]
    return {file.name: file.SerializeToString() for file in files}


def _refusal(error: WrongSchema) -> InvalidSchema:
    if isinstance(error.__cause__, ImportError):
        return NoSuchType(f"Protobuf: it {needs('registry', 'grpcio-tools')}")
    return InvalidSchema(str(error))


def _check(file: bytes) -> None:
    """InvalidSchema for what this registry doesn't take."""
    from google.protobuf import descriptor_pb2

    found = descriptor_pb2.FileDescriptorProto.FromString(file)
    if found.syntax not in ("", "proto2", "proto3"):
        raise InvalidSchema(f"its syntax is {found.syntax[:50]}, neither proto2 nor proto3")
    parts, waiting = 0, [*found.message_type]
    while waiting:
        one = waiting.pop()
        parts += 1 + len(one.field) + len(one.enum_type)
        if parts > MAX_PARTS:
            raise InvalidSchema(f"it has more than {MAX_PARTS:,} parts")
        waiting += one.nested_type


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
