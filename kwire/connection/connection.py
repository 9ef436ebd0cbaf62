"""One connection: frames in, responses out, strictly in order.

Rules:

- Every complete frame of one read is served before the next read. The responses leave in one send,
  except before a response that has to wait, and around slices of files.
- A request whose handler answers at once needs no task. A request that waits for a change rests
  until the poller wakes it. Slow work, and a response that waits for the disk, get a task. While
  the client doesn't read its responses, kwire reads no more requests.
- An error in a request ends that client's connection alone.
"""

import socket
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import trio

from kwire.broker.broker import Broker
from kwire.broker.delayed import Delayed
from kwire.broker.delayed_produce import DelayedProduce
from kwire.budget.work import Work
from kwire.connection.buffered_bytes import BufferedBytes, keep_buffer
from kwire.connection.disconnect_reasons import bad_frame_size, log_disconnect
from kwire.connection.inbox import BadFrameSize, Inbox
from kwire.connection.outbox import Outbox, SliceEnded
from kwire.connection.poller import Poller
from kwire.connection.watch import Watch
from kwire.dispatch.failures import ConnectionClosed
from kwire.dispatch.large_requests import free_messages
from kwire.dispatch.serving import Serving
from kwire.handlers.lib.context import ConnectionInfo
from kwire.protocol.frame import MIN_REQUEST_BYTES

if TYPE_CHECKING:
    from kwire.connection.pipeline import Pipeline

REQUESTS_PER_TURN = 64
"""After this many requests in a row, other connections have their turn."""


class Connection:
    """Serves one accepted socket until the connection ends; ``Poller`` calls its methods."""

    def __init__(
        self,
        sock: socket.socket,
        info: ConnectionInfo,
        broker: Broker,
        poller: Poller,
        max_request_bytes: int,
    ) -> None:
        self.info, self.peer_host, self.listener = info, info.peer_host, info.listener
        self.last_active_s = poller.now_s
        self._sock, self._broker, self._poller = sock, broker, poller
        self._size_setting = "socket.request.max.bytes"
        self._inbox = Inbox(poller.scratch, MIN_REQUEST_BYTES, max_request_bytes)
        self._outbox = Outbox(sock, broker.cold_reads)
        self._work = Work(poller.turns, info.is_gone, broker.integer("kwire.response.max.bytes"))
        poller.turns.begin_as(self._work, info.peer_host)
        self._payer = info.peer_host  # its next connection takes over the used time
        self._serving = Serving(info, broker, poller, self._outbox, self._work)
        self._has_left = False
        self._scope: trio.CancelScope | None = None
        self._pipeline: Pipeline | None = None
        self._watch = Watch(poller)  # for writing while the client has to read first
        self._buffered = BufferedBytes(poller)

    def fileno(self) -> int:
        """The descriptor of the socket."""
        return self._sock.fileno()

    @property
    def used_s(self) -> float:
        """The time that the connection's requests have taken so far."""
        return self._work.used_s

    def charge(self, spent_s: float) -> None:
        """Count the time of a turn of this connection, which may have been its last."""
        self._work.used_s += spent_s
        if self._has_left:
            self._leave_turns()

    @property
    def held_bytes(self) -> int:
        """How much memory it holds for a request that arrives, and for responses not read yet."""
        return self._inbox.size_bytes + self._outbox.held_bytes

    def on_readable(self) -> None:
        """Serve the requests that have arrived; a task continues what takes longer."""
        if self._watch.is_sending or self._sock.fileno() < 0:
            return  # a late event: the socket is watched for writing by now, or is closed
        waiting = self._serving.waiting
        if self._scope is not None or waiting is not None:
            # A request is in hand: read the next request after its response, or into the pipeline.
            pipeline = self._pipeline
            if self._scope is not None or pipeline is None or not pipeline.takes_more:
                self._watch.end(self)
                if waiting is not None and not waiting.is_request and self.info.is_gone():
                    self._end(ConnectionClosed())
            else:
                self._read_behind(pipeline)
            return
        self.last_active_s = self._poller.now_s
        try:
            self._receive()
            self._serve_frames()
        except Exception as error:
            self._end(error)
            return
        if self._poller.gathers and self._outbox and self._serving.waiting is None:
            if self._inbox.leave_scratch():
                self._count_left()
            self._poller.gather(self)
        elif self._serving.waiting is not None or self._outbox or self._inbox.has_frame:
            self._wait()
        elif self._inbox.leave_scratch():
            self._count_left()

    def send_gathered(self) -> None:
        """Send the responses that were gathered."""
        if self._sock.fileno() < 0:
            return
        try:
            self._outbox.send_nowait()
        except Exception as error:
            self._end(error)
            return
        if self._outbox or self._inbox.has_frame:
            self._wait()

    def on_writable(self) -> None:
        """Continue to send; after the last byte, read the next requests again."""
        if self._scope is not None:
            self._watch.end(self)
            return
        if self._sock.fileno() < 0:
            return
        try:
            self._outbox.send_on(self._poller.now_s - self.last_active_s)
        except Exception as error:
            self._end(error)
            return
        self.last_active_s = self._poller.now_s
        self._wait()

    def wake(self, size: int) -> None:
        """Let the request continue: its change has happened, or its deadline has passed."""
        self._poller.wake(self, size)

    def hasten(self, change: Delayed) -> None:
        """Follow the deadline of the change that the request waits for: it is sooner now."""
        self._poller.deadlines.hasten(change)

    def go_on(self) -> None:
        """Answer the request that was woken, and serve the requests behind it."""
        waiting = self._serving.waiting
        if waiting is None or waiting.change is None or self._scope is not None:
            return  # the connection has ended, or a task sends earlier responses first
        self.last_active_s = self._poller.now_s
        try:
            self._poller.deadlines.discard(waiting.change)
            if self._buffered.is_on:
                self._buffered.stop_counting(self, self._work)
            self._work.go_on()
            self._serving.finish(waiting)
            if self._pipeline is not None:
                self._answer_behind(self._pipeline)
            if self._serving.waiting is None:
                self._serve_frames()
        except Exception as error:
            self._end(error)
            return
        self._wait()

    def close_nowait(self) -> None:
        """End the connection after the request that is being served."""
        with suppress(OSError):  # it is closed already
            self._sock.shutdown(socket.SHUT_RD)

    def abort_nowait(self) -> None:
        """End the connection at once, even while a request waits."""
        if self._scope is not None:
            self._scope.cancel()
        else:
            self._close()

    def release_memory(self) -> None:
        """Free an empty buffer; the server calls this when the connection is idle.

        Only here kwire notices a client that has left during a pause with requests sent ahead.
        """
        waiting = self._serving.waiting
        if waiting is not None and not waiting.is_request and self.info.is_gone():
            self._close()
        elif self._scope is None:
            self._inbox.release()

    def _read_behind(self, pipeline: "Pipeline") -> None:
        """Read, and serve requests behind the one in hand."""
        self.last_active_s = self._poller.now_s
        try:
            self._receive()
        except (ConnectionClosed, OSError) as ended:
            if self.info.is_gone():
                self._end(ended)
            else:
                pipeline.block()  # the broker has closed its end: it reads no more, but answers
            return
        try:
            pipeline.serve(self._poller.turns)
        except ConnectionClosed as failed:
            self._end(failed)
            return
        self._wait()

    def _answer_behind(self, pipeline: "Pipeline") -> None:
        """Answer the requests behind the one that was answered, up to one that waits."""
        pipeline.answer_ready()
        if self._serving.waiting is None:
            self._pipeline = None
        else:
            self._outbox.send_nowait()

    def _receive(self) -> None:
        """Read once, unless whole frames are left from the last read."""
        if self._inbox.has_frame:
            return
        try:
            count = self._inbox.receive(self._sock)
        except BlockingIOError:
            return
        if not count:
            raise ConnectionClosed
        if self._inbox.is_counted:
            self._count_arriving()

    def _count_arriving(self) -> None:
        """Count the bytes of a frame until it is whole; this may end the connection."""
        if self._inbox.has_frame:
            self._poller.arriving.forget(self)
        elif not self._count_left():
            raise ConnectionClosed

    def _count_left(self) -> bool:
        """Count the bytes that have arrived and are left for later; whether the connection lives
        on.
        """
        arriving, inbox = self._poller.arriving, self._inbox
        if inbox.is_empty:
            arriving.forget(self)
        else:
            arriving.count_bytes(
                self, inbox.size_bytes, self._poller.now_s, is_half=not inbox.has_frame
            )
        return self._sock.fileno() >= 0

    def _serve_frames(self) -> None:
        """Serve whole frames until a request waits or the client doesn't read; send responses."""
        turns = self._poller.turns
        for _ in range(REQUESTS_PER_TURN):
            try:
                frame = self._inbox.next_frame()
            except BadFrameSize as error:
                raise bad_frame_size(error, self._inbox.max_bytes, self._size_setting) from error
            if frame is None:
                break
            self._serving.serve(frame)
            if self._serving.waiting is not None or self._inbox.is_empty or turns.is_over:
                break
            if self._outbox.is_large and not self._outbox.send_nowait():
                return
        if not self._poller.gathers or self._serving.waiting is not None:
            self._outbox.send_nowait()
        if self._inbox.is_counted:
            if self._inbox.is_empty:
                self._poller.arriving.forget(self)
            keep_buffer(self._inbox, self._serving.waiting, self._poller)

    def _wait(self) -> None:
        """Start a task for slow work, send the rest, wait for a change, or become quiet again."""
        waiting = self._serving.waiting
        change = None if waiting is None else waiting.change
        if self._outbox.waits_for_disk or (waiting is not None and change is None):
            self._inbox.leave_scratch(views_stay=True)
            self._scope = trio.CancelScope()
            self._poller.start_task(self._run)
            return
        if self._inbox.leave_scratch() and not self._count_left():
            return
        if self._outbox:
            self._wait_to_send()
            return
        self._watch.start_watching(self, sending=False)
        if self._buffered.is_on:
            self._buffered.stop_counting(self, self._work)
        if change is None:
            if self._inbox.has_frame:
                self._poller.serve_again(self)
        elif change.is_set:
            self.wake(change.size)
        elif type(change) is DelayedProduce:
            self._wait_for_replicas(change)
        else:
            change.sleeper = self
            self._poller.deadlines.add(change)
            if self._work.held_bytes:
                self._buffered.start_counting(self, self._outbox, self._work)

    def _wait_to_send(self) -> None:
        """Wait until the client reads; this may end the connection."""
        self._buffered.start_counting(self, self._outbox, self._work)
        if self._sock.fileno() >= 0:
            self._watch.start_watching(self, sending=True)

    def _wait_for_replicas(self, acks: DelayedProduce) -> None:
        """Wait for the replicas, and serve requests behind the one in hand unless it is large."""
        if acks.sleeper is None:
            acks.sleeper = self
            self._poller.deadlines.add(acks)
        self._poller.expects_nothing = True
        held_bytes = 0
        if not self._work.is_large and not self._work.held_bytes:
            pipeline = self._pipeline
            if pipeline is None:
                from kwire.connection.pipeline import Pipeline

                pipeline = self._pipeline = Pipeline(self._serving, self._inbox)
            if self._inbox.has_frame and pipeline.takes_more:
                if not self._poller.turns.is_over:
                    self._read_behind(pipeline)
                    return
                self._poller.serve_again(self)
            held_bytes = pipeline.resting_bytes
        if held_bytes or self._work.held_bytes:
            self._buffered.start_counting(self, self._outbox, self._work, held_bytes)

    async def _run(self) -> None:
        """The task of a connection with slow work: runs until the work or the connection ends."""
        assert self._scope is not None
        try:
            with self._scope:
                await self._serve_on()
                if self._scope.cancel_called:
                    return
                self._scope = None
                self._wait()
        except Exception as error:
            log_disconnect(error, self._broker, self.info.peer)
            await self._outbox.send_the_rest()
        finally:
            if self._scope is not None:
                self._close()

    async def _serve_on(self) -> None:
        """Wait for the slow work, and serve the frames that were read before."""
        while True:
            if self._outbox and not self._outbox.send_nowait():
                self._buffered.start_counting(self, self._outbox, self._work)
                await self._outbox.send()
            self._buffered.stop_counting(self, self._work)
            self.last_active_s = self._poller.now_s
            if self._serving.waiting is not None:
                if self._serving.waiting.change is not None:
                    keep_buffer(self._inbox, self._serving.waiting, self._poller)
                    return
                if self._inbox.is_counted:
                    self._poller.arriving.count_bytes(
                        self, self._inbox.size_bytes, self._poller.now_s
                    )
                await self._serving.finish_in_task()
                self._poller.arriving.forget(self)
                if self._pipeline is not None:
                    self._work.resume()
                    try:
                        self._answer_behind(self._pipeline)
                    finally:
                        self._work.rest()
            elif self._inbox.has_frame:
                await trio.lowlevel.checkpoint()
            else:
                return
            if self._serving.waiting is None:
                self._poller.turns.begin_pass()  # the poller's last one may be long over
                self._work.resume()
                try:
                    self._serve_frames()
                finally:
                    self._work.rest()

    def _end(self, error: Exception) -> None:
        """End the connection; good requests before a bad request still get their responses."""
        log_disconnect(error, self._broker, self.info.peer)
        waiting = self._serving.waiting
        if waiting is not None and waiting.is_acknowledged:
            with suppress(ConnectionClosed):
                self._serving.finish(waiting)
                if self._pipeline is not None:
                    self._pipeline.answer_ready()
        with suppress(OSError, SliceEnded):
            if not self._outbox.send_nowait():
                self._scope = trio.CancelScope()
                self._poller.start_task(self._close_slowly)
                return
        self._close()

    async def _close_slowly(self) -> None:
        assert self._scope is not None
        try:
            with self._scope:
                await self._outbox.send_the_rest()
        finally:
            self._close()

    def _close(self) -> None:
        """Close the socket, if it is open."""
        if self._sock.fileno() < 0:
            return
        waiting, self._serving.waiting = self._serving.waiting, None
        if waiting is not None:
            if waiting.change is not None:
                self._poller.deadlines.discard(waiting.change)
            waiting.close()
        if self._pipeline is not None:
            self._pipeline.close()
        self._buffered.stop_counting(self, self._work)
        self._poller.arriving.forget(self)
        if self._work.is_large and self._work.doomed:
            self._poller.start_task(partial(free_messages, self._work.doomed))
        self._work.end_request()
        self._watch.end(self)
        self._outbox.clear()
        self._inbox.close()
        self._sock.close()
        self._leave_turns()
        self._poller.remove(self)

    def _leave_turns(self) -> None:
        """The next connection of this payer begins with the time of this one, which has ended."""
        self._has_left = True
        self._poller.turns.leave(self._payer, self._work.used_s, self._work.changes)
