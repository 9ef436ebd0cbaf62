"""Encodes a response behind the responses that wait to be sent."""

from struct import Struct
from typing import Any

from kwire.dispatch.routes import Route
from kwire.protocol.file_slice import FileSlice

_SIZE = Struct(">i")
_RESPONSE_START = Struct(">ii")


def encode_response(
    served_by: Route,
    response: Any,
    correlation_id: int,
    out: bytearray,
    slices: list[tuple[int, FileSlice]],
) -> None:
    """Append a response, with its size in front, to ``out``, and its slices to ``slices``."""
    start = len(out)
    first_slice = len(slices)
    out += _RESPONSE_START.pack(0, correlation_id)
    if served_by.response_header_version:
        out.append(0)
    served_by.encode(response, out, slices)
    size = len(out) - start - 4
    for _, part in slices[first_slice:]:
        size += part.size_bytes
    _SIZE.pack_into(out, start, size)
