"""ApiVersions: the versions of each request that a broker serves, and the version to send.

The first request of a connection is ApiVersions in version 4: in version 5 a client tells which
broker it means to ask (KIP-1242), and this one doesn't. A broker that doesn't know version 4
answers in version 0 with UNSUPPORTED_VERSION, and is asked again in the newest version that it does
know (KIP-511). Source: NetworkClient, ApiVersionsResponse of Kafka.
"""

from typing import NamedTuple

from kwire import __version__
from kwire.client.connection import Connection
from kwire.client.errors import BadAnswer, NotSupported
from kwire.errors import ErrorCode
from kwire.protocol.codec import MalformedRequest, decode
from kwire.protocol.frame import decode_response_header
from kwire.protocol.messages.api_versions import (
    ApiVersionsRequest,
    ApiVersionsResponse,
)
from kwire.protocol.types import Request

_SOFTWARE = "kwire"
_VERSION = 4
_CODE_BYTES = 2


class Served(NamedTuple):
    """The APIs that a broker serves: the first and last version by API key, and its answer."""

    ranges: dict[int, tuple[int, int]]
    answer: ApiVersionsResponse


async def negotiate(connection: Connection) -> Served:
    """Ask a broker for its APIs and versions; ConnectionLost, AnswerTimeout or BadAnswer."""
    version = _VERSION
    answer = await _ask(connection, version)
    if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
        known = {api.api_key: api.max_version for api in answer.api_keys}
        version = min(version, known.get(ApiVersionsRequest.API_KEY, 0))
        answer = await _ask(connection, version)
    if answer.error_code:
        text = f"ApiVersions failed with {ErrorCode(answer.error_code).name}"
        raise BadAnswer(connection.address, text)
    ranges = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}
    return Served(ranges, answer)


async def _ask(connection: Connection, version: int) -> ApiVersionsResponse:
    request = ApiVersionsRequest(
        client_software_name=_SOFTWARE, client_software_version=__version__
    )
    pending = await connection.send(request, ApiVersionsResponse, version)
    frame = memoryview(await pending.wait_raw(connection.settings.request_timeout_s))
    try:
        _, position = decode_response_header(memoryview(frame), ApiVersionsResponse, version)
        code = int.from_bytes(frame[position : position + _CODE_BYTES], signed=True)
        spoken = 0 if code == ErrorCode.UNSUPPORTED_VERSION else version
        return decode(ApiVersionsResponse, spoken, frame[position:])
    except MalformedRequest as error:
        text = f"its answer to ApiVersions is malformed ({error}): is it a Kafka broker?"
        raise connection.close(BadAnswer(connection.address, text)) from error


def pick(request: type[Request], served: Served, address: str, at_most: int | None = None) -> int:
    """The newest version that both sides know, no newer than ``at_most``; NotSupported."""
    first, last = request.VERSIONS
    if at_most is not None:
        last = min(last, at_most)
    name = request.__name__.removesuffix("Request")
    theirs = served.ranges.get(request.API_KEY)
    if theirs is None:
        raise NotSupported(address, f"the broker does not serve {name}")
    version = min(last, theirs[1])
    if version < max(first, theirs[0]):
        text = (
            f"the broker serves {name} in versions {theirs[0]} to {theirs[1]}, and this client "
            f"knows {first} to {last}"
        )
        raise NotSupported(address, text)
    return version
