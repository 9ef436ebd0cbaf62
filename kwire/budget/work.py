"""Work on the event loop, counted in units and done in slices.

One unit is about one microsecond of kwire's own code on the machine it was written on. A handler
states the cost of its work as an estimate and measures nothing, so the same request always costs
the same units.

Rules:

- A connection has one ``Work``. A handler calls ``spend`` with the cost of its next piece of work.
  If ``spend`` returns True, the handler waits for its next slice before that work:
  ``if work.spend(20): await later(work.next_slice)``.
- A pass of the event loop begins when the poller sets ``units_left`` to ``PASS_UNITS``. A request
  gets its first slice without waiting: ``FIRST_UNITS``, or the units that the pass has left.
- When the units of a pass are spent, the connections that are left wait for the next pass
  (``kwire.connection.crowd``).
- A request costs more than its handler counts: ``requests_left`` bounds the requests of one pass
  beyond the first of each connection, so that pipelines on many connections make no long pass.
- A request that has spent its slice waits for the next one. Each pass of the event loop grants one
  such slice of ``SLICE_UNITS``. So every request that needs no second slice has a turn between two
  slices.
- The connection that has used the fewest units gets the next slice. So a client with one request
  does not wait for a client with a thousand requests (CFS, the scheduler of Linux, has the same
  idea). A connection that was quiet is ahead of the busy ones by at most ``CREDIT_UNITS``. The same
  holds for a new connection, however much the others have used in the days before. A new connection
  of a host begins with the units of the host's last connection.
- ``next_slice`` raises ClientGone if the client closed its connection while the handler waited.
"""

from collections.abc import Callable

import trio

from kwire.budget.large import LargeRequests
from kwire.budget.line import Line, LineClosed

FIRST_UNITS = 1000
"""The slice with which a request begins, so that most requests need no second one."""

SLICE_UNITS = 500
PASS_UNITS = 2000
PASS_REQUESTS = 256
"""How many requests of fast paths one pass serves, beside the first of each connection."""

DECODED_REQUESTS = 7
"""A request without a fast path counts as so many more requests."""

CREDIT_UNITS = 20 * SLICE_UNITS
"""By how many units a connection that was quiet may be ahead of the busy connections."""


MOST_PAYERS = 1000
"""For how many users and addresses the broker remembers the units of their ended connections."""

LARGE_ANSWER_BYTES = 65_536
"""A response of so many bytes is encoded in slices; the bytes beyond them count as held."""

OBJECT_BYTES = 3
"""How many bytes of memory one byte of a message takes while it is an object, roughly."""


class ClientGone(Exception):
    """The client closed its connection before its request was answered, or the broker stops."""


class AnswerTooLarge(Exception):
    """The response would be larger than ``kwire.response.max.bytes``.

    The protocol has no error for this, so the connection ends. It is no KafkaError, which a handler
    would turn into the error of one element.
    """


class Turns:
    """The slices of one event loop.

    ``units_left`` and ``requests_left`` are what the current pass has not spent yet. ``large`` are
    the requests that hold many bytes between their slices.
    """

    def __init__(self) -> None:
        self.units_left = PASS_UNITS
        self.requests_left = PASS_REQUESTS
        self.large = LargeRequests()
        self._line = Line()
        self.floor = 0  # the units of the busiest connection that was served
        self._left_by: dict[str, tuple[int, int]] = {}

    def begin_pass(self) -> None:
        """Note that a pass of the event loop begins."""
        self.units_left = PASS_UNITS
        self.requests_left = PASS_REQUESTS

    @property
    def is_spent(self) -> bool:
        """Whether the pass serves no more requests, beside the first of each connection."""
        return self.units_left <= 0 or self.requests_left <= 0

    async def wait(self, work: "Work") -> None:
        """Wait for a slice, at least until the next pass of the event loop.

        Connections that have used fewer units get their slices first. Raises ClientGone if the
        broker stops.
        """
        work.used_units = self.rank(work.used_units)
        try:
            await self._line.enter(work.used_units)
        except LineClosed as error:
            raise ClientGone from error
        try:
            await trio.lowlevel.checkpoint()
        finally:
            self._line.leave()
        self.floor = max(self.floor, work.used_units)

    def rank(self, used_units: int) -> int:
        """The units by which a connection is ranked: a quiet connection keeps some credit."""
        return max(used_units, self.floor - CREDIT_UNITS)

    def leave(self, payer: str, used_units: int, changes: int = 0) -> None:
        """Note that a connection of this payer has ended: the next one begins with its units.

        A payer is the user who has logged in, or the address of a client that hasn't.

        Otherwise a client that reconnects for each request would always be ahead of the others.
        """
        if used_units <= self.floor - CREDIT_UNITS and not changes:
            return
        units_before, changes_before = self._left_by.pop(payer, (0, 0))
        self._left_by[payer] = max(used_units, units_before), max(changes, changes_before)
        if len(self._left_by) > MOST_PAYERS:
            del self._left_by[next(iter(self._left_by))]

    def begin_as(self, work: "Work", payer: str, own_units: int = 0) -> None:
        """Begin a connection of this payer, which has used so many units of its own."""
        units, changes = self._left_by.get(payer, (0, 0))
        work.used_units = units + own_units
        work.changes = changes

    def close(self) -> None:
        """Grant no more slices, because the broker stops: requests that need one are given up."""
        self._line.close()


class Work:
    """Counts the cost of the requests of one connection, one request after the other.

    - ``used_units``: the cost of the requests so far.
    - ``changes``: how many changes of metadata they have made (``broker.proposals``).
    - ``thread_units``: their cost in the threads that open batches; None before the first.
    - ``is_large``: whether the request in hand has needed more than one slice, or has a large
      response. Then the response is encoded in slices.
    - ``max_answer_bytes``: the setting ``kwire.response.max.bytes``.
    - ``is_gone``: says whether the connection has ended; a thread may ask.
    - ``outlives_client``: whether the request in hand is carried out even if the connection has
      ended. A producer with acks=0 waits for no response, so it may close its connection right
      after its last record.
    - ``is_exempt``: whether quotas don't count the request in hand.
    - ``in_threads_units``: the units that threads have spent on it since this was last set to 0.
    - ``held_bytes``: the memory of a large request and of its response, while they are objects.
    - ``doomed``: large objects that nobody needs when the response is made. They are freed in
      slices after the response has been encoded.
    """

    __slots__ = (
        "_answer_bytes",
        "_left",
        "_turns",
        "changes",
        "doomed",
        "held_bytes",
        "in_threads_units",
        "is_exempt",
        "is_gone",
        "is_large",
        "max_answer_bytes",
        "outlives_client",
        "thread_units",
        "used_units",
    )

    def __init__(
        self, turns: Turns, is_gone: Callable[[], bool], max_answer_bytes: int = 1 << 31
    ) -> None:
        self._turns = turns
        self.is_gone = is_gone
        self._left = 0
        self._answer_bytes = 0
        self.held_bytes = 0
        self.doomed: list[object] = []
        self.max_answer_bytes = max_answer_bytes
        self.used_units = 0
        self.changes = 0
        self.thread_units: int | None = None
        self.is_large = False
        self.outlives_client = False
        self.is_exempt = False
        self.in_threads_units = 0

    @property
    def answered_bytes(self) -> int:
        """How many bytes of the response have been counted."""
        return self._answer_bytes

    def begin_request(self, units: int) -> None:
        """Begin a request, whose smallest cost is ``units``."""
        self.is_large = False
        self.outlives_client = False
        self._answer_bytes = 0
        turns = self._turns
        turns.requests_left -= DECODED_REQUESTS
        left = turns.units_left
        # Every request begins here, so this spells out ``go_on`` and ``spend``.
        self._left = (left if left < FIRST_UNITS else FIRST_UNITS) - units
        used_units = self.used_units = self.used_units + units
        turns.units_left = left - units
        if used_units > turns.floor:
            turns.floor = used_units

    def go_on(self) -> None:
        """Continue the current request in another pass of the event loop, with a new slice."""
        left = self._turns.units_left
        self._left = left if left < FIRST_UNITS else FIRST_UNITS

    def spend(self, units: int) -> bool:
        """Count the next piece of work; return whether to wait for ``next_slice`` before it."""
        self._left -= units
        self.used_units += units
        self._turns.units_left -= units
        return self._left < 0

    def answer(self, size_bytes: int) -> None:
        """Count bytes of the response before they are made; AnswerTooLarge beyond the limit."""
        self._answer_bytes += size_bytes
        if self._answer_bytes > LARGE_ANSWER_BYTES:
            self.is_large = True
            self.hold(size_bytes * OBJECT_BYTES)
        if self._answer_bytes > self.max_answer_bytes:
            raise AnswerTooLarge(
                f"the answer is larger than kwire.response.max.bytes={self.max_answer_bytes}: "
                "ask for less in one request, or raise the setting"
            )

    def hold(self, size_bytes: int) -> None:
        """Count memory that the request holds until its response is made."""
        self.held_bytes += size_bytes
        self._turns.large.grow(self, size_bytes)

    def release(self) -> None:
        """Stop counting the request's bytes as held."""
        self._turns.large.leave(self)
        self.held_bytes = 0

    def end_request(self) -> None:
        """Note the end of the request or of its connection: nothing of it is held any more."""
        if self.held_bytes:
            self.release()
        self.doomed = []

    async def next_slice(self) -> None:
        """Wait for the next slice; ClientGone if the connection has ended meanwhile."""
        self.is_large = True
        if self.held_bytes:
            await self._turns.large.wait(self)
        await self._turns.wait(self)
        if self.is_unwanted():
            raise ClientGone
        # If the last piece cost more than its slice, this slice pays the difference. So a piece
        # that costs most of a slice isn't followed by another one in the same slice.
        left = SLICE_UNITS + self._left if self._left < 0 else SLICE_UNITS
        self._left = left if left > 0 else 0

    def is_unwanted(self) -> bool:
        """Whether the request is to be given up, because its client has gone; threads may ask."""
        return not self.outlives_client and self.is_gone()
