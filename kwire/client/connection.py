"""One connection to a broker: requests are pipelined, responses come back in the same order.

Rules:

- A broker answers the requests of a connection in the order in which it received them. So the
  oldest request without an answer belongs to the next response, and its correlation id is checked.
- ``send`` returns as soon as the request is on its way. A caller that sends several requests in a
  row has them carried out in that order.
- A request whose answer doesn't come in time closes the connection, because all later answers
  would be late too (NetworkClient.handleTimedOutRequests of Kafka does the same).
- A caller that is cancelled while its request is being written closes the connection: the broker
  could not read what follows. A caller that is cancelled while it waits only gives up its answer.
- The connection is used while ``run`` runs, in a nursery of its owner.
- Its socket can be lent: until it is back, nothing is sent or received here.
"""

from collections import deque
from typing import Generic, TypeVar

import trio

from kwire.client.errors import (
    AnswerTimeout,
    BadAnswer,
    ClientError,
    ConnectionLost,
    OtherProtocol,
)
from kwire.client.settings import ClientSettings
from kwire.client.transport import Transport
from kwire.protocol.codec import MalformedRequest, decode
from kwire.protocol.frame import decode_response_header, encode_request
from kwire.protocol.types import Request, Response

R = TypeVar("R", bound=Response)

_SIZE_BYTES = 4
_RECEIVE_BYTES = 64 * 1024
_OTHER_PROTOCOLS = {
    b"HTTP": "it answers HTTP: this is a page or a registry, not Kafka's port; the ready line of "
    "kwire serve names both",
    b"\x15\x03": "it speaks TLS: name a file of Kafka's client properties with "
    "security.protocol=SSL, or SASL_SSL, with --command-config",
}
"""What a port speaks, by how its answer begins: the second is an alert of TLS."""
_LARGE_BYTES = 2 * 1024 * 1024
"""A large response first gets this much memory, and then each time as much as has arrived."""

_CORRELATION_IDS = 0x8000_0000


class Answer(Generic[R]):
    """The answer to one request, which may still be on its way."""

    __slots__ = ("_arrived", "_connection", "_failure", "_frame", "_response", "_version", "id")

    def __init__(
        self, connection: "Connection", response: type[R], version: int, correlation_id: int
    ) -> None:
        self._connection = connection
        self._response = response
        self._version = version
        self._arrived = trio.Event()
        self._frame: bytes | bytearray = b""
        self._failure: ClientError | None = None
        self.id = correlation_id

    @property
    def name(self) -> str:
        """The name of the request, as in Kafka's documentation."""
        return self._response.__name__.removesuffix("Response")

    def arrive(self, frame: bytes | bytearray) -> None:
        """Take the response's frame, without its size."""
        self._frame = frame
        self._arrived.set()

    def fail(self, failure: ClientError) -> None:
        """Note that no response will come."""
        self._failure = failure
        self._arrived.set()

    async def wait(self, timeout_s: float) -> R:
        """The response; ConnectionLost, AnswerTimeout after ``timeout_s``, or BadAnswer."""
        frame = memoryview(await self.wait_raw(timeout_s))
        try:
            _, position = decode_response_header(memoryview(frame), self._response, self._version)
            return decode(self._response, self._version, frame[position:])
        except MalformedRequest as error:
            text = f"the answer to {self.name} version {self._version} is malformed ({error})"
            raise self._connection.close(BadAnswer(self._connection.address, text)) from error

    async def wait_raw(self, timeout_s: float) -> bytes | bytearray:
        """The response's frame without its size, header included; raises as ``wait`` does."""
        with trio.move_on_after(timeout_s) as patience:
            await self._arrived.wait()
        if patience.cancelled_caught:
            text = f"no answer to {self.name} within {timeout_s:g} s"
            raise self._connection.close(AnswerTimeout(self._connection.address, text))
        if self._failure is not None:
            raise self._failure
        return self._frame


class Connection:
    """A connection over a stream that is open; ``address`` is for error messages."""

    def __init__(self, stream: trio.abc.Stream, address: str, settings: ClientSettings) -> None:
        self.address = address
        self.settings = settings
        self._transport = Transport(stream)
        self._waiting: deque[Answer[Response]] = deque()
        self._room = trio.Semaphore(settings.max_in_flight)
        self._turn = trio.StrictFIFOLock()
        self._correlation_id = 0
        self._failure: ClientError | None = None
        self._buffer = bytearray()
        self._ending = trio.CancelScope()
        self._receiving = trio.CancelScope()
        self._resting = trio.Event()
        self._back: trio.Event | None = None

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._failure is None

    async def run(self) -> None:
        """Receive responses until the connection ends; cancel it to close the connection."""
        failure: ClientError = ConnectionLost(self.address, "the connection was closed")
        try:
            with self._ending:
                while True:
                    with trio.CancelScope() as self._receiving:
                        while True:
                            self._answer_oldest(await self._receive_frame())
                    while self._back is not None:
                        self._resting.set()
                        await self._back.wait()
        except ClientError as error:
            failure = error
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            alert = getattr(error.__cause__, "reason", None)  # of an ssl.SSLError
            text = f"the connection was reset ({alert})" if alert else "the connection was reset"
            failure = ConnectionLost(self.address, text)
        except BaseException as error:  # cancelled, or a defect: whoever waits is told which
            failure = ConnectionLost(self.address, f"the connection was closed ({error!r})")
            raise
        finally:
            self.close(failure)
            await self._transport.close()

    async def lend(self) -> tuple[int, int]:
        """Lend the socket until ``take_back``: its descriptor, and the last correlation id.

        The descriptor is -1 for a stream that is no plain socket, and while an answer is awaited.
        """
        fd = self._transport.fileno()
        if fd >= 0 and self.is_open and not self._waiting and not self._buffer:
            self._resting, self._back = trio.Event(), trio.Event()
            self._receiving.cancel()
            await self._resting.wait()
            if self.is_open and not self._buffer:
                return fd, self._correlation_id
            self.take_back(self._correlation_id)
        return -1, self._correlation_id

    def take_back(self, correlation_id: int) -> None:
        """Use the socket again; ``correlation_id`` is the last one that was used meanwhile."""
        self._correlation_id = correlation_id
        if self._back is not None:
            self._back.set()
            self._back = None

    def close(self, failure: ClientError | None = None) -> ClientError:
        """Close the connection: requests without an answer fail, with the first reason given."""
        self._resting.set()
        if self._failure is None:
            self._failure = failure or ConnectionLost(self.address, "the connection was closed")
            while self._waiting:
                self._waiting.popleft().fail(self._failure)
                self._room.release()
            self._ending.cancel()
        return self._failure if failure is None else failure

    async def ask(
        self, request: Request, response: type[R], version: int, timeout_s: float | None = None
    ) -> R:
        """Send a request and wait for its response; ConnectionLost, AnswerTimeout, BadAnswer."""
        answer = await self.send(request, response, version)
        return await answer.wait(
            self.settings.request_timeout_s if timeout_s is None else timeout_s
        )

    async def send(self, request: Request, response: type[R], version: int) -> Answer[R]:
        """Send a request; the answer is awaited separately."""
        frame = encode_request(
            request, version, self._next_correlation_id(), self.settings.client_id
        )
        correlation_id = self._correlation_id
        try:
            self._room.acquire_nowait()
        except trio.WouldBlock:
            await self._room.acquire()
        answer = Answer(self, response, version, correlation_id)
        await self._write(frame, answer)
        return answer

    async def send_unanswered(self, request: Request, version: int) -> None:
        """Send a request that the broker doesn't answer: Produce with acks=0."""
        frame = encode_request(
            request, version, self._next_correlation_id(), self.settings.client_id
        )
        await self._write(frame, None)

    def _next_correlation_id(self) -> int:
        self._correlation_id = (self._correlation_id + 1) % _CORRELATION_IDS
        return self._correlation_id

    async def _write(self, frame: bytearray, answer: "Answer[R] | None") -> None:
        try:
            self._turn.acquire_nowait()
        except trio.WouldBlock:
            await self._turn.acquire()
        try:
            if self._failure is not None:
                if answer is not None:
                    self._room.release()
                raise self._failure
            if answer is not None:
                self._waiting.append(answer)  # type: ignore[arg-type]  # only read from here on
            is_written = False
            try:
                await self._transport.send_all(frame)
                is_written = True
            except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
                raise self.close(ConnectionLost(self.address, "the connection is lost")) from error
            finally:
                if not is_written:
                    self.close(ConnectionLost(self.address, "a request was not written completely"))
        finally:
            self._turn.release()

    def _answer_oldest(self, frame: bytes | bytearray) -> None:
        """Give a response to the oldest request."""
        if not self._waiting:
            raise BadAnswer(self.address, "it sent an answer that nothing was asked for")
        answer = self._waiting.popleft()
        self._room.release()
        if len(frame) < _SIZE_BYTES or int.from_bytes(frame[:_SIZE_BYTES]) != answer.id:
            failure = BadAnswer(self.address, f"its answer to {answer.name} has another number")
            answer.fail(failure)
            raise failure
        answer.arrive(frame)

    async def _receive_frame(self) -> bytes | bytearray:
        """The next frame without its size."""
        await self._receive(_SIZE_BYTES)
        size_bytes = int.from_bytes(self._buffer[:_SIZE_BYTES], signed=True)
        if not 0 <= size_bytes <= self.settings.max_response_bytes:
            for begin, what in _OTHER_PROTOCOLS.items():
                if self._buffer.startswith(begin):
                    raise OtherProtocol(self.address, what)
            text = (
                f"it answers with a frame of {size_bytes} bytes, which is not Kafka's protocol "
                f"or more than the limit of {self.settings.max_response_bytes}"
            )
            raise BadAnswer(self.address, text)
        end = _SIZE_BYTES + size_bytes
        if len(self._buffer) < end and size_bytes > _RECEIVE_BYTES:
            return await self._receive_large(size_bytes)
        await self._receive(end)
        frame = bytes(memoryview(self._buffer)[_SIZE_BYTES:end])
        del self._buffer[:end]
        return frame

    async def _receive_large(self, size_bytes: int) -> bytearray:
        """The rest of a frame that has begun to arrive, received to where it stays.

        Memory is taken as the bytes arrive, because the announced size may be wrong.
        """
        frame = self._buffer
        del frame[:_SIZE_BYTES]
        self._buffer = bytearray()
        done = len(frame)
        while done < size_bytes:
            if done == len(frame):
                frame += bytes(min(size_bytes - done, max(done, _LARGE_BYTES)))
            with memoryview(frame) as view:
                received = await self._transport.receive_into(view[done:])
            if not received:
                raise ConnectionLost(self.address, "the broker closed the connection")
            done += received
        return frame

    async def _receive(self, size_bytes: int) -> None:
        """Receive until the buffer has ``size_bytes``; ConnectionLost at the end of the stream."""
        while len(self._buffer) < size_bytes:
            received = await self._transport.receive_some(_RECEIVE_BYTES)
            if not received:
                raise ConnectionLost(self.address, "the broker closed the connection")
            self._buffer += received
