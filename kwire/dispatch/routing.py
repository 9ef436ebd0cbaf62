"""From a frame to the API that serves it.

The first request of an API needs modules that aren't imported yet. For the first JoinGroup the
imports take some 30 ms, and far longer if the disk has to be read or if the processors are busy. On
the event loop, every client would wait for one client's first request.

Rules:

- Within ``load_in_threads``, the first request of each version of an API waits until a thread has
  imported the modules. Other connections are served meanwhile. Those that need the same modules
  wait for the same thread: a thread for each of 200 connections would keep all clients waiting.
- Only a broker that runs as its own process uses these threads. A broker inside a test imports on
  the event loop, because a thread would make the order of events in the test depend on the machine.
- A broker of a cluster has imported most modules before (``preloading``).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, TypeAlias

import trio

from kwire.budget.thread_pool import ThreadPool
from kwire.dispatch.failures import ConnectionClosed
from kwire.dispatch.routes import Route, route, served_api
from kwire.errors import KafkaError
from kwire.handlers.lib.context import RequestContext
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


_COORDINATED = frozenset({8, 9, 10, 11, 68})
"""OffsetCommit, OffsetFetch, FindCoordinator, JoinGroup and ConsumerGroupHeartbeat: a client that
needs a coordinator begins with one of them."""

_loaded: set[tuple[int, int]] | None = None
"""The versions of APIs that threads have loaded; None if the event loop loads them."""

_being_loaded: dict[tuple[int, int], trio.Event] = {}
"""The versions of APIs that a thread loads at the moment, with the end of that."""


class NotLoaded(Exception):
    """A version of an API isn't loaded: wait until it ``is_loaded``, then open the frame again."""

    def __init__(self, api_key: int, version: int) -> None:
        super().__init__(api_key, version)
        self._api_key, self._version = api_key, version

    async def is_loaded(self, threads: ThreadPool) -> None:
        """Wait until one of these threads has called ``load``, perhaps for another client."""
        key = (self._api_key, self._version)
        while _loaded is not None and key not in _loaded:
            if key in _being_loaded:
                await _being_loaded[key].wait()
                continue
            end = _being_loaded[key] = trio.Event()
            try:
                await threads.run(self.load)
            finally:
                del _being_loaded[key]
                end.set()

    def load(self) -> None:
        """Import the modules, and generate the code that reads and writes the messages."""
        route(self._api_key, self._version)
        if self._api_key in _COORDINATED:
            from kwire.dispatch.preloading import load_coordinators

            load_coordinators()
        if _loaded is not None:
            _loaded.add((self._api_key, self._version))


@contextmanager
def load_in_threads() -> Iterator[None]:
    """Have ``open_frame`` raise NotLoaded for the first request of each version of an API."""
    global _loaded
    _loaded = set()
    try:
        yield
    finally:
        _loaded = None


def loads_in_threads() -> bool:
    """Whether threads import the modules that a request needs."""
    return _loaded is not None


@cache
def loaded_route(api_key: int, version: int) -> Route:
    """The route; KafkaError (UNSUPPORTED_VERSION), or NotLoaded, which isn't cached."""
    if _loaded is not None and (api_key, version) not in _loaded:
        served_api(api_key, version)
        raise NotLoaded(api_key, version)
    return route(api_key, version)


def open_frame(frame: memoryview) -> Opened:
    """Find the code that serves the request in a frame.

    The route is None for ApiVersions in a version that kwire doesn't serve: this request has a
    special response. Raises ConnectionClosed if kwire cannot answer the request, and NotLoaded.
    """
    try:
        header, position = decode_request_header(frame)
        served_by = loaded_route(header.api_key, header.api_version)
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

    context.api_version = 0  # every client understands version 0 (KIP-511)
    return route(API_VERSIONS_KEY, 0), of_unknown_version(context)
