"""From a frame to the API that serves it."""

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from kwire.connection.ends import ConnectionClosed
from kwire.errors import KafkaError
from kwire.handlers import Route, route
from kwire.handlers.context import RequestContext
from kwire.protocol.frame import (
    API_VERSIONS_KEY,
    RequestHeader,
    decode_request_header,
    skip_header_tags,
)
from kwire.protocol.wire import MalformedRequest

if TYPE_CHECKING:
    from kwire.protocol.messages.api_versions import ApiVersionsResponse

Opened: TypeAlias = tuple[RequestHeader, Route | None, int]
"""The header of a frame, the route of its request, and the position where the body begins."""

OpenFrame: TypeAlias = Callable[[memoryview], Opened]
"""``open_frame``, or in a broker for tests a function that may give another route."""


def open_frame(frame: memoryview) -> Opened:
    """Find what serves the request in a frame.

    The route is None for ApiVersions in a version that kwire doesn't serve: this request has a
    special response. Raises ConnectionClosed if kwire cannot answer the request.
    """
    try:
        header, position = decode_request_header(frame)
        served_by = route(header.api_key, header.api_version)
        if served_by.request_is_flexible:
            position = skip_header_tags(frame, position)
        return header, served_by, position
    except MalformedRequest as malformed:
        raise ConnectionClosed(str(malformed)) from malformed
    except KafkaError as error:
        if header.api_key != API_VERSIONS_KEY:
            raise ConnectionClosed(error.message) from error
        return header, None, position


def unknown_api_versions(context: RequestContext) -> tuple[Route, "ApiVersionsResponse"]:
    """The response to ApiVersions in a version that kwire doesn't serve."""
    from kwire.handlers.api_versions import of_unknown_version

    context.api_version = 0  # every client understands this one (KIP-511)
    return route(API_VERSIONS_KEY, 0), of_unknown_version(context)
