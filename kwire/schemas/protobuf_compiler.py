"""Compiles ``.proto`` texts to a FileDescriptorSet, by the protoc of grpcio-tools.

A registry's schema may import files that Confluent's registry knows without a reference: those of
``google/protobuf``, which grpcio-tools has, and ``KNOWN``.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path, PurePosixPath

from kwire.config.extras import needs
from kwire.schemas.undecodable import WrongSchema

_TIMEOUT_S = 60
_MAIN = "kwire_schema.proto"

_RUN = "import sys; sys.path.append(sys.argv.pop(1)); import grpc_tools.protoc as it; "
_PROTOC = ("-I", "-S", "-c", _RUN + "sys.exit(it.main(sys.argv))")
"""Python that finds nothing but its own library and grpcio-tools, whose directory is the first
argument: what else an environment has would be half of the time of a compilation."""

_LOGGED = re.compile(r"WARNING: All log messages|[IWE]\d{4} ")
"""What protoc's own log writes among the errors."""

_META_OF = ("File", "Message", "Field", "Enum", "EnumValue")
KNOWN = {
    "confluent/meta.proto": """syntax = "proto3"; package confluent;
import "google/protobuf/descriptor.proto";
message Meta { string doc = 1; map<string, string> params = 2; repeated string tags = 3; }
"""
    + "".join(
        f"extend google.protobuf.{one}Options {{ Meta {name}_meta = 1088; }}\n"
        for one, name in zip(
            _META_OF, ("file", "message", "field", "enum", "enum_value"), strict=True
        )
    ),
    "confluent/type/decimal.proto": """syntax = "proto3"; package confluent.type;
message Decimal { bytes value = 1; uint32 precision = 2; int32 scale = 3; }""",
    "google/type/date.proto": """syntax = "proto3"; package google.type;
message Date { int32 year = 1; int32 month = 2; int32 day = 3; }""",
    "google/type/timeofday.proto": """syntax = "proto3"; package google.type;
message TimeOfDay { int32 hours = 1; int32 minutes = 2; int32 seconds = 3; int32 nanos = 4; }""",
}
"""The files that Connect's ProtobufConverter imports, by their names."""


@lru_cache(maxsize=64)
def compile_text(text: str, used: tuple[tuple[str, str], ...] = ()) -> bytes:
    """Compile a text; ``used`` has the name and text of each import. Raises WrongSchema."""
    with tempfile.TemporaryDirectory(prefix="kwire-proto-") as directory:
        _write(Path(directory), {**KNOWN, **dict(used), _MAIN: text})
        return _compiled(Path(directory), _MAIN)


def compile_file(path: Path) -> bytes:
    """Compile a file, which may import files of its directory. Raises WrongSchema."""
    return _compiled(path.parent, path.name)


def first_message(descriptors: bytes) -> str:
    """The first message of the compiled file itself; WrongSchema if it has none."""
    from google.protobuf import descriptor_pb2

    files = descriptor_pb2.FileDescriptorSet.FromString(descriptors).file
    if not files or not files[-1].message_type:
        raise WrongSchema("it has no message")
    own = files[-1]
    return f"{own.package}.{own.message_type[0].name}".lstrip(".")


def _write(directory: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        place = PurePosixPath(name)
        if place.is_absolute() or ".." in place.parts:
            raise WrongSchema(f"it imports {name}, which is no name of a file beside it")
        path = directory / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _compiled(directory: Path, name: str) -> bytes:
    try:
        import grpc_tools
    except ImportError as error:
        raise WrongSchema(f"to compile a .proto {needs('schemas', 'grpcio-tools')}") from error

    package = Path(next(iter(grpc_tools.__path__)))
    with tempfile.TemporaryDirectory(prefix="kwire-proto-") as out:
        target = Path(out) / "descriptors"
        command = [sys.executable, *_PROTOC, str(package.parent)]
        command += [f"-I{directory}", f"-I{package / '_proto'}"]
        command += ["--include_imports", f"--descriptor_set_out={target}", name]
        # A process of its own: protoc writes its errors to the process's standard error.
        run = subprocess.run(
            command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
        if run.returncode:
            said = run.stderr.replace(f"{directory}/", "").replace(_MAIN, "the schema")
            lines = [one for one in said.strip().splitlines() if not _LOGGED.match(one)]
            lines = lines or ["it fails"]
            raise WrongSchema(f"protoc: {lines[0]}")
        return target.read_bytes()
