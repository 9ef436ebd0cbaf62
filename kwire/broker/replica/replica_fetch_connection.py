"""A follower's connection while all goes well: fetch, append, ask again, all at once.

The poller calls the fetch connection when the leader has answered. In this one turn it appends the
records and sends the next request. ``Fetcher`` does all else in a task, which trio has to wake for
each answer. The difference counts because every record with ``acks=all`` waits for its followers.

Rules:

- The fetcher lends its connection's socket to the fetch connection, and waits until the fetch
  connection is ``over``. Meanwhile only the fetch connection sends and receives.
- The fetch connection leaves to the fetcher (``Left``) what may take long: the outcome of an answer
  that isn't only appends, the rest of an answer after a failed append, the append of a large batch,
  logs that have to be flushed, a large request, a new session.
- While the fetcher has news, the fetch connection sends no further request.
- The fetch connection receives answers into one buffer and writes the records to the logs from
  there. The buffer grows with the bytes that arrive, and shrinks when an answer brings no records.
- While much of an answer is missing, the socket becomes readable only when all of it is there
  (SO_RCVLOWAT). A wake-up for each piece costs both brokers more than the copy of the piece.
- After ``BYTES_PER_TURN`` bytes other tasks have their turn.
"""

import os
import socket
from contextlib import suppress
from struct import Struct
from typing import NamedTuple, Protocol

from trio import Event

from kwire.broker.replica.fetching import Outcome, fetched_bytes
from kwire.broker.replica.follower_partition import FollowerPartition
from kwire.errors import KafkaError
from kwire.log.inline_limits import AT_ONCE_BYTES
from kwire.protocol.codec import MalformedRequest
from kwire.protocol.messages.fetch import PartitionData

BYTES_PER_TURN = 256 * 1024
"""After appending so many bytes, a fetch connection lets other tasks have their turn."""

FIRST_BYTES = 64 * 1024
MOST_AT_ONCE = 1 << 20
"""The most bytes of one read. The buffer first grows to this size, and then doubles when full."""

PIECE_BYTES = 32 * 1024
"""It waits for pieces up to this size without telling the system how much is missing."""

LAST_NUMBER = 0x7FFFFFFF

_SIZE = Struct(">i")
_SIZE_BYTES = 4


class Watcher(Protocol):
    """The poller, as far as fetch connections and the fetches of followers use it."""

    now_s: float
    expects_nothing: bool
    """Whether the poller needn't look for the next event before it sleeps: another broker's answer
    comes too late for that."""

    def watch(self, connection: "ReplicaFetchConnection") -> None:
        """Call ``on_readable`` whenever the fetch connection's socket is readable."""

    def unwatch(self, connection: "ReplicaFetchConnection") -> None:
        """Stop that."""

    def serve_again(self, connection: "ReplicaFetchConnection") -> None:
        """Call ``on_readable`` in the next turn."""


class Lender(Protocol):
    """The fetcher whose connection a fetch connection uses."""

    def has_news(self) -> bool:
        """Whether the fetcher has to look at something before the next request."""

    def is_over(self, partition: FollowerPartition) -> bool:
        """Whether a partition has moved since the fetch connection sent the request for it."""

    def request(self, number: int, now_s: float) -> bytearray | None:
        """The frame of the next request; None if the fetcher has to send it."""

    def outcome(self, frame: memoryview, now_s: float) -> Outcome[FollowerPartition]:
        """The work that follows from an answer, without its size; MalformedRequest."""

    def now_ms(self) -> int:
        """The time of day."""


class Left(NamedTuple):
    """What a fetch connection leaves to its fetcher.

    ``outcome`` is what is still to be done of an answer. The logs of the partitions in ``due`` have
    to be flushed. ``failure`` says why the connection can't be used any more.
    """

    outcome: Outcome[FollowerPartition] | None = None
    due: tuple[FollowerPartition, ...] = ()
    failure: str = ""


class ReplicaFetchConnection:
    """Fetches over the socket ``fd``, from ``begin`` until it is ``over``.

    ``number`` is the correlation id of the last request, ``asked_s`` the time when it was sent.
    """

    __slots__ = (
        *("_buffer", "_done", "_due", "_end", "_fd", "_fetched", "_is_over", "_lender"),
        *(
            "_low_water",
            "_most_bytes",
            "_sock",
            "_watcher",
            "asked_s",
            "has_asked",
            "left",
            "number",
            "over",
        ),
        "used_s",
    )

    def __init__(
        self, fd: int, watcher: Watcher, lender: Lender, number: int, most_bytes: int
    ) -> None:
        # A fetch connection is served before clients, because clients wait for it.
        self.used_s = 0.0
        self.over = Event()
        self.left = Left()
        self.number = number
        self.asked_s = 0.0
        self.has_asked = False
        self._is_over = True
        self._fd = fd
        self._watcher = watcher
        self._lender = lender
        self._most_bytes = most_bytes
        self._sock: socket.socket | None = None
        self._low_water = 1
        self._buffer = bytearray(FIRST_BYTES)
        self._end = 0
        self._fetched: list[tuple[FollowerPartition, PartitionData]] = []
        self._done = 0
        self._due: list[FollowerPartition] = []

    @property
    def is_over(self) -> bool:
        """Whether the fetch connection doesn't use the socket: not yet, or no longer."""
        return self._is_over

    @property
    def buffer_bytes(self) -> int:
        """How much memory is kept for answers."""
        return len(self._buffer)

    def charge(self, spent_s: float) -> None:
        """Nobody pays for this."""

    def fileno(self) -> int:
        """The descriptor of the socket."""
        return self._fd

    def begin(self) -> None:
        """Send the first request."""
        self._watcher.watch(self)
        self._is_over = False
        self._send_request()

    def end(self, left: Left) -> None:
        """Stop using the socket, and leave the rest to the fetcher."""
        if not self._is_over:
            self._is_over = True
            self._watcher.unwatch(self)
            with suppress(OSError):  # the connection was closed before the fetch connection's end
                self._await_bytes(1)
            if self._sock is not None:
                self._sock.detach()
            self._fetched = []
            self.left = left
            self.over.set()

    def on_readable(self) -> None:
        """Receive the bytes that have arrived; the poller calls this."""
        if self._is_over:
            return
        if self._fetched:
            self._append()
            return
        try:
            with memoryview(self._buffer) as whole, whole[self._end :] as room:
                count = os.readv(self._fd, [room[:MOST_AT_ONCE]])
        except BlockingIOError:
            return
        except OSError as error:
            self.end(Left(failure=str(error)))
            return
        if not count:
            self.end(Left(failure="the broker closed the connection"))
            return
        self._end += count
        self._read_response()

    def _read_response(self) -> None:
        """Take an answer that is complete, or make room for the rest of it."""
        if self._end < _SIZE_BYTES:
            return
        (size_bytes,) = _SIZE.unpack_from(self._buffer, 0)
        if not 0 <= size_bytes <= self._most_bytes:
            self.end(Left(failure=f"it answers with a frame of {size_bytes} bytes"))
            return
        whole = _SIZE_BYTES + size_bytes
        if self._end < whole:
            if self._end == len(self._buffer):
                grown = bytearray(min(whole, max(2 * self._end, MOST_AT_ONCE)))
                grown[: self._end] = self._buffer
                self._buffer = grown
            missing = min(whole, len(self._buffer), self._end + MOST_AT_ONCE) - self._end
            self._await_bytes(missing if missing > PIECE_BYTES else 1)
            return
        self._await_bytes(1)
        if self._end > whole:
            self.end(Left(failure="it sent an answer that nothing was asked for"))
            return
        frame = memoryview(self._buffer)[_SIZE_BYTES:whole]
        self._end = 0
        if int.from_bytes(frame[:_SIZE_BYTES]) != self.number:
            self.end(Left(failure="its answer has another number"))
            return
        self._apply_response(frame)

    def _apply_response(self, frame: memoryview) -> None:
        """Do what follows from a whole answer, or leave it to the fetcher."""
        try:
            outcome = self._lender.outcome(frame, self._watcher.now_s)
        except MalformedRequest as error:
            self.end(Left(failure=f"the answer is malformed ({error})"))
            return
        if not outcome.is_only_appends:
            self.end(Left(outcome=outcome))
            return
        if outcome.appends:
            self._fetched, self._done = outcome.appends, 0
            self._append()
            return
        if len(self._buffer) > FIRST_BYTES:
            self._buffer = bytearray(FIRST_BYTES)
        self._send_next_request()

    def _await_bytes(self, count: int) -> None:
        """Have the socket become readable when so many bytes are there; earlier ones suffice if its
        buffer is full, or the connection ends.
        """
        if count != self._low_water:
            if self._sock is None:
                self._sock = socket.socket(fileno=self._fd)
            self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, count)
            self._low_water = count

    def _append(self) -> None:
        """Append the fetched records while the turn lasts; then send the next request."""
        found, now_ms, done_bytes = self._fetched, self._lender.now_ms(), 0
        while self._done < len(found):
            partition, data = found[self._done]
            records = fetched_bytes(data)
            if len(records) > AT_ONCE_BYTES:
                self._leave_rest()
                return
            if not self._lender.is_over(partition):
                try:
                    if records:
                        partition.append(records, now_ms)
                    partition.advance(data.high_watermark, data.log_start_offset)
                except KafkaError:
                    self._leave_rest()
                    return
                if partition.log.flush_is_due:
                    self._due.append(partition)
            self._done += 1
            done_bytes += len(records)
            if done_bytes >= BYTES_PER_TURN and self._done < len(found):
                self._watcher.serve_again(self)
                return
        self._fetched = []
        self._send_next_request()

    def _leave_rest(self) -> None:
        """Leave the appends that are still to be done to the fetcher."""
        rest = self._fetched[self._done :]
        self.end(Left(outcome=Outcome(appends=rest), due=tuple(self._due)))

    def _send_next_request(self) -> None:
        if self._due or self._lender.has_news():
            self.end(Left(due=tuple(self._due)))
        else:
            self._send_request()

    def _send_request(self) -> None:
        now_s = self._watcher.now_s
        number = 1 if self.number == LAST_NUMBER else self.number + 1
        asked = self._lender.request(number, now_s)
        if asked is None:
            self.end(Left())
            return
        self.number, self.asked_s = number, now_s
        self.has_asked = True
        self._watcher.expects_nothing = True
        try:
            sent = os.write(self._fd, asked)
        except OSError as error:
            self.end(Left(failure=str(error)))
            return
        if sent < len(asked):  # a socket whose send buffer is empty has room for a request
            self.end(Left(failure="a request was not written completely"))
