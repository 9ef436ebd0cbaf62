"""Work on the event loop, timed and done in slices.

Time is measured, not priced: no handler says what its work costs.

Rules:

- A connection has one ``Work``. Between two pieces of its work, a handler gives way if its slice is
  over: ``await give_way(work)`` (``kwire.handlers.lib.slices``), or ``await work.give_way()`` in
  code that runs in a task. A piece takes some microseconds, at most a part of a slice.
- A pass of the event loop begins when the poller calls ``begin_pass``, and has ``PASS_S``. When
  that time is over, the connections that are left wait for the next one
  (``connection.ready_queue``).
- A request gets its first slice without waiting: ``FIRST_S``, or what is left of the pass, but at
  least ``LEAST_S``.
- A request whose slice is over waits for the next one. Each pass of the event loop grants one such
  slice of ``SLICE_S``. So every request that needs no second slice has a turn between two slices.
- The poller counts the time that a connection's turn takes, and ``timed`` that of the steps of its
  task. The connection that has used the least time gets the next slice. So a client with one
  request does not wait for a client with a thousand requests (CFS, the scheduler of Linux, has the
  same idea). A connection that was quiet is ahead of the busy ones by at most ``CREDIT_S``. The
  same holds for a new connection, however much the others have used in the days before. A new
  connection of a host begins with the time of the host's last connection.
- ``next_slice`` raises ClientGone if the client closed its connection while the handler waited.
- Tests give ``Turns`` a clock of their own, so that they decide how long a piece takes.
"""

from collections.abc import Callable
from time import perf_counter
from typing import TypeAlias

import trio

from kwire.budget.fair_queue import FairLock, FairLockClosed
from kwire.budget.large import LargeRequests

FIRST_S = 0.001
"""The slice with which a request begins, so that most requests need no second one."""

LEAST_S = 0.0002
"""The first slice at the end of a pass: then small requests don't wait for another slice."""

SLICE_S = 0.0005
PASS_S = 0.002
"""How long a pass serves connections before other tasks have their turn."""

CREDIT_S = 20 * SLICE_S
"""By how much time a connection that was quiet may be ahead of the busy connections."""

MOST_PAYERS = 1000
"""For how many users and addresses the broker remembers the time of their ended connections."""

LARGE_ANSWER_BYTES = 65_536
"""A response of so many bytes is encoded in slices; the bytes beyond them count as held."""

OBJECT_BYTES = 3
"""How many bytes of memory one byte of a message takes while it is an object, roughly."""


Aside: TypeAlias = tuple[bool, bool, int, int, list[object]]
"""What belongs to one request of a connection, while another one is begun."""

NOTHING_ASIDE: Aside = (False, False, 0, 0, [])


class ClientGone(Exception):
    """The client closed its connection before its request was answered, or the broker stops."""


class AnswerTooLarge(Exception):
    """The response would be larger than ``kwire.response.max.bytes``.

    The protocol has no error for this, so the connection ends. It is no KafkaError, which a handler
    would turn into the error of one element.
    """


class Turns:
    """The slices of one event loop, by ``clock``, which counts seconds.

    ``pass_end_s`` is when the current pass is over. ``large`` are the requests that hold many bytes
    between their slices.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        self.clock = clock or perf_counter
        self.pass_end_s = self.clock() + PASS_S
        self.large = LargeRequests()
        self._lock = FairLock()
        self.floor_s = 0.0  # the time that the busiest connection with slices has used
        self._left_by: dict[str, tuple[float, int]] = {}

    def begin_pass(self) -> None:
        """Note that a pass of the event loop begins."""
        self.pass_end_s = self.clock() + PASS_S

    @property
    def is_over(self) -> bool:
        """Whether the pass serves no more requests, beside the first of each connection."""
        return self.clock() >= self.pass_end_s

    async def wait(self, work: "Work") -> None:
        """Wait for a slice, at least until the next pass of the event loop.

        Connections that have used less time get their slices first. Raises ClientGone if the broker
        stops.
        """
        work.used_s = self.rank(work.used_s)
        try:
            await self._lock.enter(work.used_s)
        except FairLockClosed as error:
            raise ClientGone from error
        try:
            await trio.lowlevel.checkpoint()
        finally:
            self._lock.leave()
        self.floor_s = max(self.floor_s, work.used_s)

    def rank(self, used_s: float) -> float:
        """The time by which a connection is ranked: a quiet connection keeps some credit."""
        return max(used_s, self.floor_s - CREDIT_S)

    def leave(self, payer: str, used_s: float, changes: int = 0) -> None:
        """Note that a connection of this payer has ended: the next one begins with its time.

        A payer is the user who has logged in, or the address of a client that hasn't.

        Otherwise a client that reconnects for each request would always be ahead of the others.
        """
        if used_s <= self.floor_s - CREDIT_S and not changes:
            return
        used_before_s, changes_before = self._left_by.pop(payer, (0.0, 0))
        self._left_by[payer] = max(used_s, used_before_s), max(changes, changes_before)
        if len(self._left_by) > MOST_PAYERS:
            del self._left_by[next(iter(self._left_by))]

    def begin_as(self, work: "Work", payer: str, own_s: float = 0.0) -> None:
        """Begin a connection of this payer, which has used so much time of its own."""
        used_s, changes = self._left_by.get(payer, (0.0, 0))
        work.used_s = used_s + own_s
        work.changes = changes

    def close(self) -> None:
        """Grant no more slices, because the broker stops: requests that need one are given up."""
        self._lock.close()


class Work:
    """Times the requests of one connection, one request after the other.

    - ``used_s``: the time that its requests have taken so far.
    - ``changes``: how many changes of metadata they have made (``broker.proposals``).
    - ``thread_s``: their time in the threads that open batches; None before the first.
    - ``is_large``: whether the request in hand has needed more than one slice, or has a large
      response. Then the response is encoded in slices.
    - ``max_answer_bytes``: the setting ``kwire.response.max.bytes``.
    - ``is_gone``: says whether the connection has ended; a thread may ask.
    - ``outlives_client``: whether the request in hand is carried out even if the connection has
      ended. A producer with acks=0 waits for no response, so it may close its connection right
      after its last record.
    - ``is_exempt``: whether quotas don't count the request in hand.
    - ``in_threads_s``: the time that threads have spent on it since this was last set to 0.
    - ``held_bytes``: the memory of a large request and of its response, while they are objects.
    - ``doomed``: large objects that nobody needs when the response is made. They are freed in
      slices after the response has been encoded.
    """

    __slots__ = (
        "_answer_bytes",
        "_end_s",
        "_left_s",
        "_since_s",
        "_turns",
        "changes",
        "doomed",
        "held_bytes",
        "in_threads_s",
        "is_exempt",
        "is_gone",
        "is_large",
        "max_answer_bytes",
        "outlives_client",
        "thread_s",
        "used_s",
    )

    def __init__(
        self, turns: Turns, is_gone: Callable[[], bool], max_answer_bytes: int = 1 << 31
    ) -> None:
        self._turns = turns
        self.is_gone = is_gone
        self._end_s = 0.0  # when the slice in hand is over
        self._left_s: float | None = None  # what its last step left of the slice
        self._since_s: float | None = None  # when the step in hand began
        self._answer_bytes = 0
        self.held_bytes = 0
        self.doomed: list[object] = []
        self.max_answer_bytes = max_answer_bytes
        self.used_s = 0.0
        self.changes = 0
        self.thread_s: float | None = None
        self.is_large = False
        self.outlives_client = False
        self.is_exempt = False
        self.in_threads_s = 0.0

    @property
    def answered_bytes(self) -> int:
        """How many bytes of the response have been counted."""
        return self._answer_bytes

    def begin_request(self, *, has_whole_slice: bool = False) -> None:
        """Begin a request with its first slice, which may be shorter at the end of a pass."""
        self.is_large = False
        self.outlives_client = False
        self._answer_bytes = 0
        self.go_on()
        if has_whole_slice:
            self._end_s = self._turns.clock() + FIRST_S

    def set_aside(self) -> "Aside":
        """Take what belongs to the request in hand, because another one is begun or resumed."""
        aside = (
            self.is_large,
            self.outlives_client,
            self._answer_bytes,
            self.held_bytes,
            self.doomed,
        )
        self._turns.large.leave(self)
        self.is_large = self.outlives_client = False
        self._answer_bytes = self.held_bytes = 0
        self.doomed = []
        return aside

    def take_up(self, aside: "Aside") -> None:
        """Give back what was set aside."""
        self.is_large, self.outlives_client, self._answer_bytes, held_bytes, self.doomed = aside
        if held_bytes:
            self.hold(held_bytes)

    def go_on(self) -> None:
        """Continue the current request in another pass of the event loop, with a new slice."""
        self._left_s = None
        now_s = self._turns.clock()
        left_s = self._turns.pass_end_s - now_s
        self._end_s = now_s + (FIRST_S if left_s > FIRST_S else max(left_s, LEAST_S))

    @property
    def is_due(self) -> bool:
        """Whether the slice is over, so that others have their turn before the next piece."""
        return self._turns.clock() >= self._end_s

    async def give_way(self) -> None:
        """Wait for the next slice if this one is over; only for code that runs in a task."""
        if self.is_due:
            await self.next_slice()

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
        self.rest()
        if self.held_bytes:
            await self._turns.large.wait(self)
        await self._turns.wait(self)
        if self.is_unwanted():
            raise ClientGone
        self._left_s = None
        self._end_s = self._turns.clock() + SLICE_S

    def resume(self) -> None:
        """The event loop begins a step of the request; this or the poller counts its time.

        Time in which it waited doesn't belong to its slice.
        """
        self._since_s = now_s = self._turns.clock()
        if self._left_s is not None:
            self._end_s = now_s + self._left_s
            self._left_s = None

    def rest(self) -> None:
        """The event loop leaves the request after a step."""
        if self._since_s is not None:
            now_s = self._turns.clock()
            self.used_s += now_s - self._since_s
            self._since_s = None
            self._left_s = max(self._end_s - now_s, 0.0)

    def is_unwanted(self) -> bool:
        """Whether the request is to be given up, because its client has gone; threads may ask."""
        return not self.outlives_client and self.is_gone()
