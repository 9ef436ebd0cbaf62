"""Serves the requests of one connection: from a frame to its response, at once or later.

Rules:

- If a handler answers at once, its response goes into the outbox.
- Otherwise ``waiting`` is the request in hand. ``finish`` resumes it after its change, and
  ``finish_in_task`` does its slow work. The connection serves no other request meanwhile.
- A request whose client has quotas has a ``Metering``. If the client has to wait afterwards,
  ``waiting`` is a ``Pause`` then.
- An error in a request is raised as ConnectionClosed: it ends that client's connection alone.
"""

from types import CoroutineType
from typing import TYPE_CHECKING, Any, Protocol

from kwire.broker.broker import Broker
from kwire.broker.delayed_produce import DelayedProduce
from kwire.broker.metrics_counters import MetricsCounters
from kwire.budget.timed import timed
from kwire.budget.work import NOTHING_ASIDE, Aside, Work
from kwire.dispatch import large_requests as large
from kwire.dispatch.encoding import encode_response
from kwire.dispatch.failures import ConnectionClosed, reason_of_failure
from kwire.dispatch.pending_request import COME_LATER, FirstUse, Waiting, held
from kwire.dispatch.routes import Route
from kwire.dispatch.routing import NotLoaded, OpenFrame, unknown_api_versions
from kwire.dispatch.stopwatch import Stopwatch
from kwire.handlers.lib.context import ConnectionInfo, RequestContext
from kwire.handlers.lib.waiting import Unfinished
from kwire.protocol.file_slice import EncodedResponse, FileSlice
from kwire.protocol.frame import RequestHeader
from kwire.protocol.wire import TooManyElements

if TYPE_CHECKING:
    from kwire.dispatch.metering import Metering


class FrameSource(Protocol):
    """The poller, as far as requests are concerned.

    ``ready_s`` is when the connections of this pass were found ready, by ``perf_counter``;
    ``now_s`` is the time of this pass on trio's clock.
    """

    open_frame: OpenFrame
    counters: MetricsCounters
    ready_s: float
    now_s: float


class ResponseSink(Protocol):
    """The outbox, where responses wait to be sent."""

    @property
    def buffers(self) -> tuple[bytearray, list[tuple[int, FileSlice]]]:
        """Where a response is encoded: its bytes, and its slices of files."""
        ...

    def append_plain(self, response: EncodedResponse) -> None:
        """Queue a whole response, which has its size in front."""


MOST_BEHIND_BYTES = 256 * 1024
"""A larger request isn't begun while an earlier one waits: it would be held in memory meanwhile."""

BEHIND_BYTES = 2048
BEHIND_PARTITION_BYTES = 400
"""How much memory a request takes that waits, roughly, and each partition of it."""


class Behind:
    """A request that was begun while an earlier one waits for replicas.

    ``response`` is the response, what gives it later, or the error that ends the connection.
    """

    __slots__ = ("aside", "header", "response", "served_by", "size_bytes", "stopwatch")

    def __init__(
        self, served_by: Route, header: RequestHeader, stopwatch: Stopwatch | None
    ) -> None:
        self.served_by = served_by
        self.header = header
        self.stopwatch = stopwatch
        self.response: Any = None
        self.aside: Aside = NOTHING_ASIDE
        self.size_bytes = BEHIND_BYTES

    @property
    def waits_for_replicas(self) -> bool:
        """Whether nothing but replicas is missing for the response, if anything is."""
        response = self.response
        if isinstance(response, Exception) or type(response) is CoroutineType:
            return False
        return type(response) is not Unfinished or type(response.waits_for) is DelayedProduce

    def close(self) -> None:
        """Drop the request, because the client can't get its response any more."""
        if type(self.response) in COME_LATER:
            self.response.close()


def _kept_bytes(request: Any, frame_bytes: int) -> int:
    """The memory that a Produce request keeps while it waits: not its records, but its answer."""
    parts, records_bytes = 0, 0
    for topic in request.topic_data:
        parts += 1 + len(topic.partition_data)
        for data in topic.partition_data:
            records_bytes += len(data.records or b"")
    return BEHIND_PARTITION_BYTES * parts + frame_bytes - records_bytes


class Serving:
    """Serves one connection's requests, one after the other."""

    __slots__ = (
        "_broker",
        "_info",
        "_metering",
        "_outbox",
        "_poller",
        "_stopwatch",
        "_work",
        "waiting",
    )

    def __init__(
        self,
        info: ConnectionInfo,
        broker: Broker,
        poller: FrameSource,
        outbox: ResponseSink,
        work: Work,
    ) -> None:
        self._info = info
        self._broker = broker
        self._poller = poller
        self._outbox = outbox
        self._work = work
        self._stopwatch = Stopwatch(poller.counters) if poller.counters.is_on else None
        self._metering: Metering | None = None
        self.waiting: Waiting | None = None

    def serve(self, frame: memoryview) -> None:
        """Serve one request; raise ConnectionClosed if kwire cannot answer it."""
        try:
            header, served_by, position = self._poller.open_frame(frame)
        except NotLoaded as missing:
            self.waiting = FirstUse(missing.is_loaded, frame)
            return
        if served_by is None:
            self._encode(*unknown_api_versions(self._context(header)), header)
            return
        try:
            if self._broker.quotas is not None and self._meter(served_by, header, frame, position):
                return
            serve_single = served_by.serve_single
            if serve_single is not None:
                answer = serve_single(frame, position, header, self._broker, self._info)
                if answer is not None:
                    self._poller.counters.singles += 1
                    self._outbox.append_plain(answer)
                    return
            if self._stopwatch is not None:
                self._stopwatch.start_request(header.api_key, self._poller.ready_s)
            self._decode(served_by, header, frame, position)
        except Exception as error:
            raise reason_of_failure(
                error, served_by, header, self._broker, self._info.peer
            ) from error

    def serve_behind(self, frame: memoryview) -> "Behind | None":
        """Begin a Produce request while an earlier one waits for replicas.

        None, with nothing changed, if it has to be served after the earlier one is answered.
        """
        if len(frame) > MOST_BEHIND_BYTES:
            return None
        try:
            header, served_by, position = self._poller.open_frame(frame)
        except (ConnectionClosed, NotLoaded):
            return None  # this has to follow the answers before it
        if served_by is None:
            return None
        if self._broker.quotas is not None and self._is_metered(header):
            return None  # a pause may have to follow the request
        # The buffer of the frame is used again before this request is answered.
        frame = memoryview(bytearray(frame))
        try:
            request, _ = served_by.decode(frame, position, large.INLINE_ELEMENTS)
        except Exception:
            return None  # likewise
        stopwatch = None
        if self._stopwatch is not None:
            stopwatch = Stopwatch(self._poller.counters)
            stopwatch.start_request(header.api_key, self._poller.ready_s)
        work = self._work
        in_hand = work.set_aside()
        work.begin_request(has_whole_slice=True)
        behind = Behind(served_by, header, stopwatch)
        behind.size_bytes += _kept_bytes(request, len(frame))
        try:
            behind.response = self._begin_handler(served_by, request, self._context(header))
        except Exception as error:
            behind.response = reason_of_failure(
                error, served_by, header, self._broker, self._info.peer
            )
        behind.aside = work.set_aside()
        work.take_up(in_hand)
        if stopwatch is not None:
            stopwatch.record_response(behind.response, False)
        if not behind.waits_for_replicas:
            behind.size_bytes += len(frame)  # its batches are parts of the frame
        return behind

    def _is_metered(self, header: RequestHeader) -> bool:
        """Whether a quota applies to a request."""
        from kwire.dispatch.metering import quotas_of

        return quotas_of(self._broker, self._info, header) is not None

    def _metering_of(self, header: RequestHeader, frame: memoryview) -> "Metering | None":
        """The object that counts a request for its client's quotas; None if it has none."""
        from kwire.dispatch.metering import metering_of

        return metering_of(self._broker, self._info, header, len(frame), self._work)

    def _meter(
        self, served_by: Route, header: RequestHeader, frame: memoryview, position: int
    ) -> bool:
        """Serve a request whose client has quotas; False, with nothing done, if it has none."""
        metering = self._metering = self._metering_of(header, frame)
        if metering is None:
            return False
        if self._stopwatch is not None:
            self._stopwatch.start_request(header.api_key, self._poller.ready_s)
        self._decode(served_by, header, frame, position)
        metering.rest()
        return True

    def _encode(self, served_by: Route, response: Any, header: RequestHeader) -> None:
        encode_response(served_by, response, header.correlation_id, *self._outbox.buffers)

    def _pause(self, served_by: Route, header: RequestHeader, wait_ms: int) -> None:
        """Let the client wait, after its answer."""
        from kwire.dispatch.metering import Pause

        self._metering = None
        quotas = self._broker.quotas
        if wait_ms and quotas is not None and not self._broker.is_stopping:
            self.waiting = Pause(served_by, header, quotas, wait_ms)

    def take_up(self, behind: "Behind") -> None:
        """Answer a request of ``serve_behind``, or make it the one in hand; ConnectionClosed."""
        response = behind.response
        if isinstance(response, Exception):
            raise response
        if type(response) in COME_LATER:
            self._stopwatch = behind.stopwatch
            self._work.take_up(behind.aside)
            self.waiting = Waiting(behind.served_by, behind.header, response)
        elif response is not None:
            self._encode(behind.served_by, response, behind.header)

    def _context(self, header: RequestHeader) -> RequestContext:
        return RequestContext(
            self._broker, self._info, header.api_version, header.client_id, self._work
        )

    def _decode(
        self, served_by: Route, header: RequestHeader, frame: memoryview, position: int
    ) -> None:
        """Decode a request and call its handler; a large one has to wait for that."""
        self._work.begin_request()
        context = self._context(header)
        try:
            request, _ = served_by.decode(frame, position, large.INLINE_ELEMENTS)
        except TooManyElements:
            self._work.is_large = True
            self._keep_response(
                served_by, header, large.serve_large(served_by, frame, position, context)
            )
            return
        self._keep_response(served_by, header, self._begin_handler(served_by, request, context))

    def _begin_handler(self, served_by: Route, request: Any, context: RequestContext) -> Any:
        """Call the handler; its response, or the object that gives the response later.

        If the handler's appends have to be on the disk first, the response waits for that.
        """
        flusher = self._broker.flusher
        if flusher.asked:
            flusher.forget()
        handle = served_by.handle if self._broker.authorizer is None else served_by.serve_authorized
        response = handle(request, context)
        return held(response, flusher) if flusher.asked else response

    def _keep_response(self, served_by: Route, header: RequestHeader, response: Any) -> None:
        """Keep a response, or the object that gives the response later."""
        if self._stopwatch is not None:
            self._stopwatch.record_response(response, self._work.is_large)
        if type(response) in COME_LATER:
            self.waiting = Waiting(served_by, header, response)
            return
        metering = self._metering
        if metering is not None:
            metering.answer(response)
        if type(response) is list:
            self._outbox.append_plain(response)
        elif response is not None and self._work.is_large:
            how = self._broker.threads.loading, self._work, self._stopwatch
            encoding = large.encode_large(served_by, response, header, *how)
            self.waiting = Waiting(served_by, header, encoding)
            return
        elif response is not None:
            self._encode(served_by, response, header)
        if self._work.held_bytes or self._work.doomed:
            self._work.end_request()
        if metering is not None:
            self._pause(served_by, header, metering.wait_ms)

    def finish(self, waiting: Waiting) -> None:
        """Resume the handler of the request in hand; the handler may wait again."""
        self.waiting = None
        metering = self._metering
        if metering is not None:
            metering.resume()
        try:
            if not waiting.is_request:
                waiting.close()
                return
            response = waiting.go_on(self._broker.flusher)
            self._keep_response(waiting.served_by, waiting.header, response)
            if metering is not None:
                metering.rest()
        except Exception as error:
            by, header = waiting.served_by, waiting.header
            raise reason_of_failure(error, by, header, self._broker, self._info.peer) from error

    async def finish_in_task(self) -> None:
        """Do the slow work of the request in hand."""
        assert self.waiting is not None
        waiting, self.waiting = self.waiting, None
        if isinstance(waiting, FirstUse):
            await waiting.is_loaded(self._broker.threads.loading)
            self.serve(waiting.frame)
            return
        metering = self._metering
        work = timed(waiting.work(self._broker.flusher), self._work)
        try:
            response = await (work if metering is None else timed(work, metering))
        except Exception as error:
            by, header = waiting.served_by, waiting.header
            raise reason_of_failure(error, by, header, self._broker, self._info.peer) from error
        self._keep_response(waiting.served_by, waiting.header, response)
