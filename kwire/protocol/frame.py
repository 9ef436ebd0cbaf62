"""Frames and the headers of requests and responses.

A frame is an int32 size and that many bytes: a header, then the body. The request header names the
version of both bodies, the request's and the response's.

Request header (all versions)  api_key int16, api_version int16, correlation_id int32,
                               client_id as a nullable string with an *int16* length
            version 2          the same and tagged fields
Response header                correlation_id int32
            version 1          the same and tagged fields

Rules:

- A request header has version 2 if the version of the body is flexible, else version 1. A response
  header has version 1 if the version of the body is flexible, else version 0.
- The response header of ApiVersions always has version 0, so that a client can read the answer to a
  request in a version that the broker doesn't know (KIP-511).
- Version 0 of the request header, without a client id, isn't served: only ControlledShutdown v0
  used it.
"""

from struct import Struct
from struct import error as StructError

from kwire.protocol.codec import encoder
from kwire.protocol.file_slice import FileSlice
from kwire.protocol.types import Request, Response, is_flexible
from kwire.protocol.wire import MalformedRequest, skip_tagged_fields

MAX_FRAME_BYTES = 104857600
"""The largest request, unless the broker sets another limit (socket.request.max.bytes)."""

MIN_REQUEST_BYTES = 10
"""The size of a request with a null client id and an empty body."""

API_VERSIONS_KEY = 18

_REQUEST_HEADER = Struct(">hhih")
_RESPONSE_START = Struct(">ii")
_CORRELATION_ID = Struct(">i")


class RequestHeader:
    """The header of a request: API key and version, client id, and the answer's correlation id."""

    __slots__ = ("api_key", "api_version", "client_id", "correlation_id")

    def __init__(
        self, api_key: int, api_version: int, correlation_id: int, client_id: str | None = None
    ) -> None:
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id

    def __repr__(self) -> str:
        return (
            f"RequestHeader(api_key={self.api_key}, api_version={self.api_version}, "
            f"correlation_id={self.correlation_id}, client_id={self.client_id!r})"
        )


def request_header_version(request: type[Request], version: int) -> int:
    """The version of the header, 1 or 2, before a request body of this version."""
    return 2 if is_flexible(request, version) else 1


def response_header_version(response: type[Response], version: int) -> int:
    """The version of the header, 0 or 1, before a response body of this version."""
    return int(is_flexible(response, version) and response.API_KEY != API_VERSIONS_KEY)


def decode_request_header(
    buffer: bytes | memoryview, position: int = 0
) -> tuple[RequestHeader, int]:
    """The request header at ``position`` without its tagged fields, and the position after it.

    Where the version of the body is flexible, the caller continues with ``skip_header_tags`` at
    that position. Raises ``MalformedRequest``.
    """
    try:
        api_key, version, correlation_id, length = _REQUEST_HEADER.unpack_from(buffer, position)
    except StructError as cut_short:
        raise MalformedRequest("request header is cut short") from cut_short
    position += 10
    if length < 0:
        return RequestHeader(api_key, version, correlation_id, None), position
    stop = position + length
    if stop > len(buffer):
        raise MalformedRequest("client id is longer than the request")
    try:
        client_id = str(buffer[position:stop], "utf-8")
    except UnicodeDecodeError as not_text:
        raise MalformedRequest("client id is not UTF-8") from not_text
    return RequestHeader(api_key, version, correlation_id, client_id), stop


def skip_header_tags(buffer: bytes | memoryview, position: int) -> int:
    """The position after the tagged fields of a header; Kafka 4.3 defines none."""
    try:
        count = buffer[position]
        position += 1
        return skip_tagged_fields(buffer, position, count, len(buffer)) if count else position
    except IndexError as error:
        raise MalformedRequest("header is cut short") from error


def encode_request(
    request: Request, version: int, correlation_id: int, client_id: str | None = None
) -> bytearray:
    """The frame of a request, size included."""
    client = b"" if client_id is None else client_id.encode()
    length = -1 if client_id is None else len(client)
    out = bytearray(4)
    out += _REQUEST_HEADER.pack(request.API_KEY, version, correlation_id, length)
    out += client
    if is_flexible(type(request), version):
        out.append(0)
    encoder(type(request), version)(request, out, [])
    out[:4] = (len(out) - 4).to_bytes(4, "big")
    return out


def encode_response(
    response: Response, version: int, correlation_id: int
) -> tuple[bytearray, list[tuple[int, FileSlice]]]:
    """The frame of a response, size included, and the file slices that belong into it.

    Each slice comes with its position in the frame's bytes. The frame's size includes the slices.
    """
    out = bytearray(_RESPONSE_START.pack(0, correlation_id))
    if response_header_version(type(response), version):
        out.append(0)
    slices: list[tuple[int, FileSlice]] = []
    encoder(type(response), version)(response, out, slices)
    size_bytes = len(out) - 4
    for _, file_slice in slices:
        size_bytes += file_slice.size_bytes
    out[:4] = size_bytes.to_bytes(4, "big")
    return out, slices


def decode_response_header(
    buffer: bytes | memoryview, response: type[Response], version: int, position: int = 0
) -> tuple[int, int]:
    """The correlation id of the response at ``position``, and the position of its body.

    ``position`` is behind the size of the frame. Raises ``MalformedRequest``.
    """
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(buffer, position)
    except StructError as error:
        raise MalformedRequest("response header is cut short") from error
    position += 4
    if response_header_version(response, version):
        position = skip_header_tags(buffer, position)
    return correlation_id, position
