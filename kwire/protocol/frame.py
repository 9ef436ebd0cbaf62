"""Frames and their headers: what stands before the body of a request or a response.

A frame is an int32 size and that many bytes: a header, then the body, whose version is the one
that the request header names.

Request header (all versions)  api_key int16, api_version int16, correlation_id int32,
                               client_id as a nullable string with an *int16* length
            version 2          the same and tagged fields
Response header                correlation_id int32
            version 1          the same and tagged fields

Rules:

- The header is version 2 (1 for responses) exactly when the body's version is flexible.
- ApiVersions answers with header version 0 in every version, so that a client which asked in a
  version unknown to the broker can read the answer (KIP-511).
- Versions 0 of the request header, without a client id, died with ControlledShutdown v0.
"""

from struct import Struct
from struct import error as StructError

from kwire.protocol.codec import encoder
from kwire.protocol.file_slice import FileSlice
from kwire.protocol.types import Request, Response, is_flexible
from kwire.protocol.wire import MalformedRequest, skip_tagged_fields

MAX_FRAME_BYTES = 104857600
"""Largest request that is read unless the broker says otherwise (socket.request.max.bytes)."""

MIN_REQUEST_BYTES = 10
"""A request header without client id and an empty body."""

API_VERSIONS_KEY = 18

_REQUEST_HEADER = Struct(">hhih")
_RESPONSE_START = Struct(">ii")
_CORRELATION_ID = Struct(">i")


class RequestHeader:
    """Who asks what: the API and version of the body, and the number the answer must carry."""

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
    """1 or 2: the header before the body of a request in this version."""
    return 2 if is_flexible(request, version) else 1


def response_header_version(response: type[Response], version: int) -> int:
    """0 or 1: the header before the body of a response in this version."""
    return int(is_flexible(response, version) and response.API_KEY != API_VERSIONS_KEY)


def decode_request_header(
    buffer: bytes | memoryview, position: int = 0
) -> tuple[RequestHeader, int]:
    """The request header at ``position``, as far as all versions agree, and the position after it.

    In a flexible version ``skip_header_tags`` goes on from there; only the caller knows whether
    it is one. Raises ``MalformedRequest``.
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
    """The position after the tagged fields of a header, none of which is known today."""
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

    Each slice comes with its position in the bytes; the size counts them.
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
    """The correlation id of a response (without its size) and the position of its body."""
    try:
        (correlation_id,) = _CORRELATION_ID.unpack_from(buffer, position)
    except StructError as error:
        raise MalformedRequest("response header is cut short") from error
    position += 4
    if response_header_version(response, version):
        position = skip_header_tags(buffer, position)
    return correlation_id, position
