"""Requests and responses that are too large for one turn of the event loop.

Rules:

- A request whose arrays hold more than ``INLINE_ELEMENTS`` elements is decoded in slices of the
  event loop, if it has at most ``kwire.request.max.elements``. Then its handler runs in a slice.
- If a handler needed more than one slice, its response is encoded in slices too. So a response must
  not hold an object that a handler, or any other code, changes later.
- Afterwards the request, its response, and the objects in ``Work.doomed`` are taken apart in
  slices. So after that no code may read a list in them, unless it holds its own reference to that
  list. ``free`` does the same for a request whose connection has ended.
- The connection that has used the least time gets the next slice (``kwire.budget.work``): a
  client with many large requests does not keep the others waiting.
- The memory of all such requests together is bounded (``kwire.budget.large``). The objects of a
  malformed request, or of a request whose client has gone, are freed in slices, too.
- No thread decodes or encodes. While a thread runs Python code, it holds the interpreter's lock,
  and the event loop waits for this lock each time it wakes up: for a millisecond, and several times
  for each request of another client. A slice holds up the event loop for less time (decision 54).
"""

from collections.abc import Generator, Sequence
from types import GeneratorType
from typing import Any, TypeVar

import trio

from kwire.budget.thread_pool import ThreadPool
from kwire.budget.work import Work
from kwire.dispatch.failures import ConnectionClosed
from kwire.dispatch.routes import Route
from kwire.dispatch.stopwatch import Stopwatch
from kwire.handlers.lib.context import RequestContext
from kwire.protocol.codec import InPieces
from kwire.protocol.file_slice import EncodedResponse, FileSlice
from kwire.protocol.frame import RequestHeader
from kwire.protocol.taking_apart import take_apart
from kwire.protocol.wire import TooManyElements

_T = TypeVar("_T")

INLINE_ELEMENTS = 2000
"""Up to this many elements are decoded inline, which takes about a millisecond."""

BYTES_PER_BYTE = 32
"""How many bytes of memory a request takes for each of its bytes, with the objects that its handler
makes. Small elements take the most: 16 bytes of a CreateTopics request are a whole topic."""

FETCH_BYTES_PER_BYTE = 4
"""The same for Fetch. It is lower, because many consumers have a waiting Fetch at the same time."""

BYTES_PER_ELEMENT = 100
"""The rough memory for each element of a request with the most elements."""

SETTING = "kwire.request.max.elements"

COPY_BYTES = 256 * 1024
"""How many bytes of a response are copied at once, which takes some 50 microseconds."""

_PIECES_OF_NOBODY = 8
"""How many pieces are taken apart at once if no request pays for it."""


async def serve_large(
    served_by: Route, frame: memoryview, position: int, context: RequestContext
) -> Any:
    """Decode a request in slices and call its handler; return the handler's result.

    Raises ConnectionClosed if the request has more elements than the broker's settings allow.
    """
    broker, work = context.broker, context.work
    most = broker.integer(SETTING)
    times = FETCH_BYTES_PER_BYTE if served_by.api.name == "Fetch" else BYTES_PER_BYTE
    work.hold(min(len(frame) * times, most * BYTES_PER_ELEMENT))
    # Before a Produce request is decoded, it isn't known whether its client waits for a response.
    work.outlives_client = served_by.api.name == "Produce"
    codecs = await _codecs(served_by, broker.threads.loading)
    await work.next_slice()
    decoding = codecs.decode(frame, position, most)
    assert isinstance(decoding, GeneratorType)
    decoder: Any = decoding.gi_frame
    try:
        request, _ = await _done(work, decoding)
    except BaseException as error:
        # When the connection has ended, the decoded part is freed in slices, too.
        work.doomed += [value for value in decoder.f_locals.values() if type(value) is list]
        if isinstance(error, TooManyElements):
            told = f"{error}; {SETTING}={most} allows no more in one request"
            raise ConnectionClosed(told) from error
        raise
    work.doomed.append(request)
    work.outlives_client = False  # from here on, its handler decides
    broker.flusher.forget()
    handle = served_by.handle if broker.authorizer is None else served_by.serve_authorized
    return handle(request, context)


_CODECS: dict[Any, InPieces] = {}
"""The codecs in pieces that have been made, by the decoder that does the same at once."""


async def _codecs(served_by: Route, loading: ThreadPool) -> InPieces:
    """The codecs in pieces of an API; a thread makes them for the first large request."""
    codecs = _CODECS.get(served_by.decode)
    if codecs is None:
        codecs = _CODECS[served_by.decode] = await loading.run(served_by.in_pieces)
    return codecs


async def _done(work: Work, pieces: Generator[None, None, _T]) -> _T:
    """Do a work in pieces within the slices of a request; return the value of the generator."""
    while True:
        await work.give_way()
        try:
            next(pieces)
        except StopIteration as done:
            value: _T = done.value
            return value


async def encode_large(
    served_by: Route,
    response: Any,
    header: RequestHeader,
    loading: ThreadPool,
    work: Work,
    stopwatch: Stopwatch | None,
) -> EncodedResponse:
    """Encode a response in slices; ConnectionClosed for a response of too many bytes.

    This also counts the response's errors for the metrics, and frees the objects of the request and
    of the response. Records that are sent from files don't count among the bytes: they are not in
    memory, and ``fetch.max.bytes`` bounds them.
    """
    if stopwatch is not None:
        stopwatch.note_errors(response)
    work.doomed.insert(0, response)
    codecs = await _codecs(served_by, loading)
    parts = await _done(work, encoded_parts(served_by, codecs, response, header.correlation_id))
    await _done(work, _taken_apart(work.doomed))
    size_bytes = sum(len(part) for part in parts if isinstance(part, bytes))
    if size_bytes > work.max_answer_bytes:
        raise ConnectionClosed(
            f"{served_by.api.name}: the answer has {size_bytes} bytes; "
            f"kwire.response.max.bytes={work.max_answer_bytes} allows no more"
        )
    return parts


async def free_messages(messages: Sequence[object]) -> None:
    """Take apart the objects of a large request whose connection has ended."""
    for number, _ in enumerate(_taken_apart(messages), start=1):
        if number % _PIECES_OF_NOBODY == 0:
            await trio.lowlevel.checkpoint()


def _taken_apart(messages: Sequence[object]) -> Generator[None, None, None]:
    """Take all things apart, and again in the other order: one may refer to another's parts."""
    for thing in messages:
        yield from take_apart(thing, keeps=True)
    for thing in reversed(messages):
        yield from take_apart(thing)


def encoded_parts(
    served_by: Route, codecs: InPieces, response: Any, correlation_id: int
) -> Generator[None, None, list[bytes | FileSlice]]:
    """A whole response with its size in front, cut where slices of files belong."""
    out = bytearray(4)
    slices: list[tuple[int, FileSlice]] = []
    out += correlation_id.to_bytes(4, "big", signed=True)
    if served_by.response_header_version:
        out.append(0)
    yield from codecs.encode(response, out, slices)
    size_bytes = len(out) - 4 + sum(part.size_bytes for _, part in slices)
    out[:4] = size_bytes.to_bytes(4, "big")
    parts: list[bytes | FileSlice] = []
    position = 0
    whole = memoryview(out)  # a slice of a bytearray would be one more copy
    for at, part in slices:
        parts += [bytes(whole[position:at]), part]
        position = at
        yield
    whole.release()
    return parts + (yield from _cut_pieces(out, position))


def _cut_pieces(out: bytearray, start: int) -> Generator[None, None, list[bytes]]:
    """The bytes from ``start`` on, in pieces, which are removed from ``out``.

    One copy of 100 MB would stop the event loop for 20 ms.
    """
    pieces: list[bytes] = []
    while len(out) > start or not pieces:
        at = max(start, len(out) - COPY_BYTES)
        pieces.append(bytes(memoryview(out)[at:]))
        del out[at:]
        yield
    return pieces[::-1]
