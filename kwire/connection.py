"""One connection: frames in, handlers, frames out, strictly in order.

Rules:

- Every complete frame of a read is served before the next read; the responses leave in one send,
  unless one is about to wait or carries slices of files.
- Nothing more is read while a response can't be sent, so a client that doesn't read holds no
  memory but its own requests.
- The buffer grows with the bytes that came, never with the size a client announces, and is given
  back when the connection is idle.
- Whatever is wrong with a request costs the client its connection and nothing else. This is the one
  place that catches everything.
"""

import logging
import os
import socket
from struct import Struct
from typing import Any

import trio

from kwire.broker.broker import Broker
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers import Route, route
from kwire.handlers.context import ConnectionInfo, RequestContext
from kwire.protocol.file_slice import FileSlice
from kwire.protocol.frame import (
    API_VERSIONS_KEY,
    MIN_REQUEST_BYTES,
    RequestHeader,
    decode_request_header,
    skip_header_tags,
)
from kwire.protocol.wire import MalformedRequest

log = logging.getLogger(__name__)

INITIAL_BUFFER_BYTES = 2048
LARGE_BUFFER_BYTES = 64 * 1024
FLUSH_BYTES = 256 * 1024
"""Responses are sent when they have come to this, even if more requests are at hand."""

LAST_FLUSH_S = 1.0
REQUESTS_PER_TURN = 64
"""After so many requests in a row other connections have their turn."""

_SIZE = Struct(">i")
_RESPONSE_START = Struct(">ii")

_OTHER_PROTOCOLS = {
    b"GET ": "an HTTP request",
    b"POST": "an HTTP request",
    b"HEAD": "an HTTP request",
    b"PUT ": "an HTTP request",
    b"OPTI": "an HTTP request",
    b"\x16\x03\x00": "a TLS handshake",
    b"\x16\x03\x01": "a TLS handshake",
    b"\x16\x03\x03": "a TLS handshake",
}


class ConnectionClosed(Exception):
    """The client is gone, or sent something that ends the connection."""


class Connection:
    """Serves one accepted socket until it ends; ``run`` is its task."""

    def __init__(
        self, sock: socket.socket, info: ConnectionInfo, broker: Broker, max_request_bytes: int
    ) -> None:
        self.info = info
        self.last_active_ms = broker.now_ms()
        self._sock = sock
        self._broker = broker
        self._max_request_bytes = max_request_bytes
        self._buffer = bytearray(INITIAL_BUFFER_BYTES)
        self._start = 0
        self._end = 0
        self._out = bytearray()
        self._slices: list[tuple[int, FileSlice]] = []
        self._busy = False
        self._scope = trio.CancelScope()

    async def run(self) -> None:
        """Serve requests until the client leaves or breaks the protocol."""
        try:
            with self._scope:
                await self._serve_until_closed()
        except OSError as error:
            log.debug("connection from %s ended: %s", self._peer(), error)
        except Exception as error:
            log.exception("bug in serving %s", self._peer())
            self._broker.bugs.append(error)
        finally:
            self._sock.close()

    async def _serve_until_closed(self) -> None:
        try:
            while await self._receive():
                await self._serve_frames()
        except ConnectionClosed as reason:
            if reason.args:
                log.info("closing the connection from %s: %s", self._peer(), reason)
            # The good requests before a bad one have their answers.
            with trio.move_on_after(LAST_FLUSH_S):
                await self._flush()

    def close_nowait(self) -> None:
        """End the connection after the request that is being served."""
        try:
            self._sock.shutdown(socket.SHUT_RD)
        except OSError:
            log.debug("connection from %s is closed already", self._peer())

    def abort_nowait(self) -> None:
        """End the connection whatever it is waiting for."""
        self._scope.cancel()

    def release_memory(self) -> None:
        """Give back a large buffer that holds nothing; called when the connection is idle."""
        if not self._busy and self._start == self._end and len(self._buffer) > INITIAL_BUFFER_BYTES:
            self._buffer = bytearray(INITIAL_BUFFER_BYTES)
            self._start = self._end = 0

    def _peer(self) -> str:
        return f"{self.info.peer_host}:{self.info.peer_port}"

    async def _receive(self) -> bool:
        """Read what is there, waiting for something; False when the client has left."""
        self._make_room()
        while True:
            self._busy = False
            await trio.lowlevel.wait_readable(self._sock)
            self._busy = True
            # A buffer released while waiting has other bounds, so they are read only now.
            with memoryview(self._buffer) as view:
                try:
                    count = self._sock.recv_into(view[self._end :])
                except BlockingIOError:
                    continue
            self._end += count
            self.last_active_ms = self._broker.now_ms()
            return count > 0

    def _make_room(self) -> None:
        """Move or grow so that there is room to read into."""
        if self._start == self._end:
            self._start = self._end = 0
            return
        capacity = len(self._buffer)
        held = self._end - self._start
        if self._end < capacity and self._start == 0:
            return
        if held * 2 > capacity:
            capacity *= 2
        # A new buffer, because views into the old one may still be held.
        buffer = bytearray(min(capacity, self._max_request_bytes + 4))
        buffer[:held] = memoryview(self._buffer)[self._start : self._end]
        self._buffer = buffer
        self._start, self._end = 0, held

    async def _serve_frames(self) -> None:
        """Serve every complete frame in the buffer and send the responses."""
        served = 0
        while self._end - self._start >= 4:
            (size,) = _SIZE.unpack_from(self._buffer, self._start)
            if not MIN_REQUEST_BYTES <= size <= self._max_request_bytes:
                raise ConnectionClosed(self._bad_size(size))
            stop = self._start + 4 + size
            if stop > self._end:
                break
            frame = memoryview(self._buffer)[self._start + 4 : stop]
            await self._serve(frame)
            self._start = stop
            served += 1
            if served == REQUESTS_PER_TURN:
                await self._flush()
                await trio.lowlevel.checkpoint()
                served = 0
        await self._flush()

    def _bad_size(self, size: int) -> str:
        start = bytes(self._buffer[self._start : self._start + 4])
        for prefix, what in _OTHER_PROTOCOLS.items():
            if start.startswith(prefix):
                return f"this looks like {what}; this listener speaks plain Kafka"
        return (
            f"a request of {size} bytes; socket.request.max.bytes allows {self._max_request_bytes}"
        )

    async def _serve(self, frame: memoryview) -> None:
        """Serve one request; raise ConnectionClosed if there is nothing sensible to answer."""
        try:
            header, position = decode_request_header(frame)
        except MalformedRequest as error:
            raise ConnectionClosed(str(error)) from error
        try:
            served_by = route(header.api_key, header.api_version)
        except KafkaError as error:
            if header.api_key != API_VERSIONS_KEY:
                raise ConnectionClosed(error.message) from error
            header.api_version, position = 0, len(frame)
            await self._answer_unsupported_version(header)
            return
        if served_by.api.waits:
            await self._flush()
        try:
            if served_by.request_is_flexible:
                position = skip_header_tags(frame, position)
            request, position = served_by.decode(frame, position)
        except MalformedRequest as error:
            raise ConnectionClosed(f"a malformed {served_by.api.name} request: {error}") from error
        context = RequestContext(self._broker, self.info, header.api_version, header.client_id)
        response = await self._handle(served_by, request, context, header)
        if response is not None:
            self._append(served_by, response, header.correlation_id)
            if self._slices or len(self._out) > FLUSH_BYTES:
                await self._flush()

    async def _handle(
        self, served_by: Route, request: Any, context: RequestContext, header: RequestHeader
    ) -> Any:
        """Call the handler; an exception it didn't mean to raise is a bug and is told as one."""
        try:
            return await served_by.handle(request, context)
        except (trio.Cancelled, ConnectionClosed):
            raise
        except KafkaError as error:
            # Handlers raise it where the protocol has no answer but a closed connection.
            raise ConnectionClosed(f"{served_by.api.name}: {error}") from error
        except Exception as error:
            log.exception(
                "bug in %s v%d, client %r at %s",
                served_by.api.name,
                header.api_version,
                header.client_id,
                self._peer(),
            )
            self._broker.bugs.append(error)
            raise ConnectionClosed("") from error

    async def _answer_unsupported_version(self, header: RequestHeader) -> None:
        """ApiVersions in a version unknown here: version 0 of the answer says what there is."""
        from kwire.protocol.messages.api_versions import ApiVersionsRequest

        served_by = route(API_VERSIONS_KEY, 0)
        context = RequestContext(self._broker, self.info, 0, header.client_id)
        response = await served_by.handle(ApiVersionsRequest(), context)
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
        self._append(served_by, response, header.correlation_id)

    def _append(self, served_by: Route, response: Any, correlation_id: int) -> None:
        """Encode a response behind those that wait to be sent."""
        out = self._out
        start = len(out)
        first_slice = len(self._slices)
        out += _RESPONSE_START.pack(0, correlation_id)
        if served_by.response_header_version:
            out.append(0)
        served_by.encode(response, out, self._slices)
        size = len(out) - start - 4
        for _, part in self._slices[first_slice:]:
            size += part.size_bytes
        _SIZE.pack_into(out, start, size)

    async def _flush(self) -> None:
        """Send every response there is, waiting while the client doesn't read."""
        if not self._out:
            return
        out, self._out = self._out, bytearray()
        if not self._slices:
            try:  # nearly always the whole answer fits into the socket's buffer at once
                sent = self._sock.send(out)
            except BlockingIOError:
                sent = 0
            if sent < len(out):
                await self._send(memoryview(out)[sent:], 0)
            return
        slices, self._slices = self._slices, []
        view = memoryview(out)
        position = 0
        for at, part in slices:
            await self._send(view[position:at], socket.MSG_MORE)
            await self._send_file(part)
            position = at
        await self._send(view[position:], 0)

    async def _send(self, data: memoryview, flags: int) -> None:
        while data:
            try:
                data = data[self._sock.send(data, flags) :]
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._sock)
            self.last_active_ms = self._broker.now_ms()

    async def _send_file(self, part: FileSlice) -> None:
        position = part.position
        end = position + part.size_bytes
        while position < end:
            try:
                sent = os.sendfile(self._sock.fileno(), part.fd, position, end - position)
            except BlockingIOError:
                await trio.lowlevel.wait_writable(self._sock)
                continue
            if sent == 0:
                raise ConnectionClosed("a segment ended before the slice that was promised")
            position += sent
            self.last_active_ms = self._broker.now_ms()
