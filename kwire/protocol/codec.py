"""Messages to bytes and back, in any of their versions.

The functions are generated from the fields of the message class on first use and kept. Hot paths
hold on to the function of ``encoder`` or ``decoder``; ``encode`` and ``decode`` are for the rest.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Protocol, TypeAlias, TypeVar

from kwire.protocol.file_slice import FileSlice
from kwire.protocol.types import Message, Schema
from kwire.protocol.wire import MAX_ELEMENTS, MalformedRequest, UnencodableMessage

_M = TypeVar("_M", bound=Schema)
_Decoded = TypeVar("_Decoded", covariant=True)

__all__ = [
    "Decoder",
    "Encoder",
    "MalformedRequest",
    "UnencodableMessage",
    "decode",
    "decoder",
    "encode",
    "encoder",
]

Encoder: TypeAlias = Callable[[Any, bytearray, list[tuple[int, FileSlice]]], None]
"""``encode(message, out, slices)``: appends to ``out``; see ``wire.append_records``."""


class Decoder(Protocol[_Decoded]):
    """Decodes one version of a message.

    Nothing beyond the end of ``buffer`` belongs to the message, so a buffer that holds several
    frames is handed over in slices of its memoryview.
    """

    def __call__(
        self, buffer: bytes | memoryview, position: int, room: int = MAX_ELEMENTS
    ) -> tuple[_Decoded, int]:
        """The message and the position after it; TooManyElements beyond ``room`` elements."""


@cache
def encoder(message: type[Message], version: int) -> Encoder:
    """The encoder of one version of a message class; ValueError for a version it doesn't have.

    It raises ``UnencodableMessage`` when the message doesn't fit into the version.
    """
    from kwire.protocol.encoding import generate_encoder

    function: Encoder = generate_encoder(message, version)
    return function


@cache
def _decoder(message: type[Message], version: int) -> Any:
    from kwire.protocol.decoding import generate_decoder

    return generate_decoder(message, version)


def decoder(message: type[_M], version: int) -> "Decoder[_M]":
    """The decoder of one version of a message class; ValueError for a version it doesn't have.

    It raises ``MalformedRequest`` for anything that isn't such a message. Bytes after the message
    are left to the caller.
    """
    function: Decoder[_M] = _decoder(message, version)
    return function


def encode(message: Schema, version: int) -> bytes:
    """The bytes of a message whose records, if it has any, are in memory."""
    out = bytearray()
    slices: list[tuple[int, FileSlice]] = []
    encoder(type(message), version)(message, out, slices)
    if slices:
        raise UnencodableMessage(f"{type(message).__name__} holds slices of files")
    return bytes(out)


def decode(message: type[_M], version: int, data: bytes | memoryview) -> _M:
    """The message that ``data`` is; ``MalformedRequest`` if bytes are left over."""
    decoded, position = decoder(message, version)(data, 0)
    if position != len(data):
        left = len(data) - position
        raise MalformedRequest(f"{message.__name__} v{version}: {left} bytes after the end")
    return decoded
