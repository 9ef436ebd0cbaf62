"""Requests and responses that are too large for one turn of the event loop.

Rules:

- A request whose arrays hold more than ``INLINE_ELEMENTS`` elements waits for a slice. A thread
  then decodes it, if it has at most ``kwire.request.max.elements``. Its handler runs in a slice.
- The thread serves the connection that has used threads least (``kwire.budget.checking``): a client
  with many large requests does not keep the others waiting.
- The memory of all such requests together is bounded (``kwire.budget.large``).
- If a handler needed more than one slice, a thread encodes its response. So a response must not
  hold an object that a handler, or any other code, changes later.
- Then the thread also takes apart the request, its response, and what the handler has added to
  ``Work.doomed``. So nobody may read a list of theirs after that, except through a reference of
  their own to that list. ``free`` does that for a request whose connection has ended.
"""

from collections.abc import Callable, Sequence
from typing import Any

from kwire.budget.checking import Lane
from kwire.budget.kind import Kind
from kwire.budget.work import Work
from kwire.connection.ends import ConnectionClosed
from kwire.connection.stopwatch import Stopwatch
from kwire.handlers import PlainAnswer, Route
from kwire.handlers.context import RequestContext
from kwire.protocol.file_slice import FileSlice
from kwire.protocol.frame import RequestHeader
from kwire.protocol.taking_apart import take_apart
from kwire.protocol.wire import TooManyElements

INLINE_ELEMENTS = 2000
"""Up to this many elements are decoded inline, which takes about a millisecond."""

BYTES_PER_BYTE = 32
"""How much memory one byte of a request of many small elements takes, with all that its handler
makes of it. A topic of 16 bytes in CreateTopics takes the most."""

FETCH_BYTES_PER_BYTE = 4
"""The same for Fetch, which many consumers send, and which waits: their number shouldn't suffer."""

BYTES_PER_ELEMENT = 100
"""How much memory a request of the most elements takes for each of them, roughly."""

SETTING = "kwire.request.max.elements"

COPY_BYTES = 256 * 1024
"""So many bytes of a response are copied at once, which takes some 50 microseconds."""

SMALL_BYTES = 4096
"""A request of a fast path up to this size costs so little that its cost isn't counted."""

_BYTES_PER_PLAIN_UNIT = 2000
_ANSWER_BYTES_PER_UNIT = 8


def plain_units(frame: memoryview, answer: PlainAnswer) -> int:
    """The cost of a fast path's request: its bytes for checksums, and its partitions."""
    parts = answer if isinstance(answer, list) else [answer]
    told_bytes = sum(len(part) for part in parts if isinstance(part, bytes))
    return len(frame) // _BYTES_PER_PLAIN_UNIT + told_bytes // _ANSWER_BYTES_PER_UNIT


async def serve_large(
    served_by: Route, frame: memoryview, position: int, context: RequestContext
) -> Any:
    """Decode a request in a thread and call its handler; return what the handler gives.

    Raises ConnectionClosed if the request has more elements than the broker's settings allow.
    """
    broker = context.broker
    most = broker.integer(SETTING)
    times = FETCH_BYTES_PER_BYTE if served_by.api.name == "Fetch" else BYTES_PER_BYTE
    context.work.hold(min(len(frame) * times, most * BYTES_PER_ELEMENT))
    # Before a Produce request is decoded, nobody knows whether its client waits for a response.
    context.work.outlives_client = served_by.api.name == "Produce"
    await context.work.next_slice()
    try:
        request, _ = await broker.threads.coding.run(
            context.work,
            lambda most, between: served_by.decode(frame, position, most),
            most,
            len(frame) // served_by.decoded_bytes_per_unit,
        )
    except TooManyElements as error:
        raise ConnectionClosed(
            f"{error}; {SETTING}={most} allows no more in one request"
        ) from error
    context.work.doomed.append(request)
    await context.work.next_slice()
    context.work.outlives_client = False  # from here on, its handler decides
    broker.flusher.forget()
    handle = served_by.handle if broker.authorizer is None else served_by.guarded
    return handle(request, context)


async def encode_large(
    served_by: Route,
    response: Any,
    header: RequestHeader,
    coding: Lane,
    work: Work,
    stopwatch: Stopwatch | None,
) -> PlainAnswer:
    """Encode a response in a thread; ConnectionClosed for a response of too many bytes.

    The thread also notes the response's errors, and frees the objects of the request and of the
    response. Slices of files don't count: they are not in
    memory, and ``fetch.max.bytes`` bounds them.
    """

    def encode(response: Any, between: Callable[[], None]) -> list[bytes | FileSlice]:
        if stopwatch is not None:
            stopwatch.note_errors(response)
        parts = encoded_parts(served_by, response, header.correlation_id)
        for thing in (response, *work.doomed):
            take_apart(thing)
        return parts

    parts = await coding.run(work, encode, response)
    size_bytes = sum(len(part) for part in parts if isinstance(part, bytes))
    work.thread_units = (work.thread_units or 0) + size_bytes // _ANSWER_BYTES_PER_UNIT
    if size_bytes > work.max_answer_bytes:
        raise ConnectionClosed(
            f"{served_by.api.name}: the answer has {size_bytes} bytes; "
            f"kwire.response.max.bytes={work.max_answer_bytes} allows no more"
        )
    return parts


async def free(things: Sequence[object], threads: Kind) -> None:
    """Take apart what a large request has made whose connection has ended."""

    def run() -> None:
        for thing in things:
            take_apart(thing)

    await threads.run(run)


def encoded_parts(served_by: Route, response: Any, correlation_id: int) -> list[bytes | FileSlice]:
    """A whole response with its size in front, cut where slices of files belong."""
    out = bytearray(4)
    slices: list[tuple[int, FileSlice]] = []
    out += correlation_id.to_bytes(4, "big", signed=True)
    if served_by.response_header_version:
        out.append(0)
    served_by.encode(response, out, slices)
    size_bytes = len(out) - 4 + sum(part.size_bytes for _, part in slices)
    out[:4] = size_bytes.to_bytes(4, "big")
    parts: list[bytes | FileSlice] = []
    position = 0
    whole = memoryview(out)  # a slice of a bytearray would be one more copy
    for at, part in slices:
        parts += [bytes(whole[position:at]), part]
        position = at
    whole.release()
    return parts + _cut(out, position)


def _cut(out: bytearray, start: int) -> list[bytes]:
    """The bytes from ``start`` on, which leave ``out``, in pieces.

    One copy of 100 MB would keep the event loop from going on for 20 ms.
    """
    pieces: list[bytes] = []
    while len(out) > start or not pieces:
        at = max(start, len(out) - COPY_BYTES)
        pieces.append(bytes(memoryview(out)[at:]))
        del out[at:]
    return pieces[::-1]
