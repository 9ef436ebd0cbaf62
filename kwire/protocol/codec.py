"""Turns messages into bytes and back, in every version of a message.

The codec of a message and version is generated from the fields of the message class on first use,
and then kept. Hot paths call ``encoder`` or ``decoder`` once and keep the function that it returns.
All other code calls ``encode`` and ``decode``.
"""

from collections.abc import Callable, Generator
from functools import cache
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeVar

from kwire.protocol.file_slice import FileSlice
from kwire.protocol.types import Message, Schema
from kwire.protocol.wire import MAX_ELEMENTS, MalformedRequest, UnencodableMessage

_M = TypeVar("_M", bound=Schema)
_Decoded = TypeVar("_Decoded", covariant=True)

__all__ = [
    "Decoder",
    "Encoder",
    "InPieces",
    "MalformedRequest",
    "UnencodableMessage",
    "decode",
    "decoder",
    "encode",
    "encoder",
    "in_pieces",
]

Encoder: TypeAlias = Callable[[Any, bytearray, list[tuple[int, FileSlice]]], None]
"""``encode(message, out, slices)`` appends the message to ``out``.

It doesn't copy a file slice: it appends the slice to ``slices``, with the position in ``out`` where
the bytes of the slice belong (see ``wire.append_records``).
"""


class Decoder(Protocol[_Decoded]):
    """Decodes one version of a message.

    The message may reach up to the end of ``buffer``. So a caller whose buffer holds several frames
    passes a slice of its memoryview for each frame.
    """

    def __call__(
        self, buffer: bytes | memoryview, position: int, room: int = MAX_ELEMENTS
    ) -> tuple[_Decoded, int]:
        """The message at ``position``, and the position after it.

        Raises TooManyElements if the arrays of the message hold more than ``room`` elements.
        """


class InPieces(NamedTuple):
    """A decoder of requests and an encoder of responses that are generators.

    They do what a ``Decoder`` and an ``Encoder`` do, and yield after each piece of their work: some
    25 microseconds. The value of its StopIteration is what the decoder returns.
    """

    decode: Callable[[memoryview, int, int], Generator[None, None, tuple[Any, int]]]
    encode: Callable[[Any, bytearray, list[tuple[int, FileSlice]]], Generator[None, None, None]]


@cache
def encoder(message: type[Message], version: int) -> Encoder:
    """The encoder of one version of a message class; ValueError for a version it doesn't have.

    The encoder raises ``UnencodableMessage`` for a message that the version can't carry.
    """
    from kwire.protocol.encoding import generate_encoder

    function: Encoder = generate_encoder(message, version)
    return function


@cache
def _decoder(message: type[Message], version: int) -> Any:
    from kwire.protocol.decoding import generate_decoder

    return generate_decoder(message, version)


@cache
def in_pieces(request: type[Message], response: type[Message], version: int) -> "InPieces":
    """The codecs of an API's large requests and responses. To make them takes some milliseconds."""
    from kwire.protocol.decoding import generate_decoder
    from kwire.protocol.encoding import generate_encoder

    return InPieces(
        generate_decoder(request, version, in_pieces=True),
        generate_encoder(response, version, in_pieces=True),
    )


def decoder(message: type[_M], version: int) -> "Decoder[_M]":
    """The decoder of one version of a message class; ValueError for a version it doesn't have.

    The decoder raises ``MalformedRequest`` for bytes that aren't such a message. It doesn't check
    the bytes after the message.
    """
    function: Decoder[_M] = _decoder(message, version)
    return function


def encode(message: Schema, version: int) -> bytes:
    """The bytes of a message; UnencodableMessage if it holds slices of files."""
    out = bytearray()
    slices: list[tuple[int, FileSlice]] = []
    encoder(type(message), version)(message, out, slices)
    if slices:
        raise UnencodableMessage(f"{type(message).__name__} holds slices of files")
    return bytes(out)


def decode(message: type[_M], version: int, data: bytes | memoryview) -> _M:
    """The message in ``data``; ``MalformedRequest`` if bytes follow the message."""
    decoded, position = decoder(message, version)(data, 0)
    if position != len(data):
        left = len(data) - position
        raise MalformedRequest(f"{message.__name__} v{version}: {left} bytes after the end")
    return decoded
