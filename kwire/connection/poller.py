"""All quiet connections, watched together: one wake-up serves all readable connections.

Rules:

- A connection without a request in hand has no task and no buffer. It is an entry of one selector,
  for which one task waits, in trio or by itself (``own_wait``). A connection whose client reads its
  responses too slowly is such an entry too. The poller watches it for writing until everything is
  sent, and kwire reads nothing from it until then.
- A connection whose request waits for a change, like a fetch for an append, is woken by the change.
  It continues in the same turn, after the connections that were ready. These get their responses
  first, and many appends wake it only once. If one append wakes very many connections, the
  expensive ones continue in a later turn, to delay no small fetch.
- A connection whose request needs slow work has a task of its own until the work is done.
- If a connection has more requests than one turn serves, the others are served after the
  connections that are ready. So a client with one request doesn't wait for another's pipeline.
- After a request, the poller checks the selector for a moment before it sleeps, because a client
  often sends its next request soon, and a wake-up costs more than a check. It stops when another
  task can run, and checks less often after checks in vain. After another broker's message it
  doesn't check (``expects_nothing``): that broker may need the processor.
- If many connections are ready, the poller serves some of them and then sends all their responses.
  The same step many times in a row costs less time, here and in a client with many connections. If
  few are ready, each gets its responses at once.
- Other tasks have their turn after ``PASS_S`` at the latest. Expensive requests wait for slices of
  the event loop, one slice in each turn (``turns``).
- Work that can follow the responses, like logging, is done after they have been sent.
"""

import os
import selectors
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from heapq import heappop, heappush
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Protocol

import trio

from kwire.broker.metrics_counters import MetricsCounters
from kwire.budget.buffered_bytes_limit import ARRIVING, BufferedBytesLimit
from kwire.budget.work import PASS_S, Turns
from kwire.connection.deadlines import Deadlines
from kwire.connection.inbox import Scratch
from kwire.connection.own_wait import OwnWait
from kwire.connection.ready_queue import Event, ReadyQueue, Watched
from kwire.connection.unauthenticated_connections import UnauthenticatedConnections
from kwire.dispatch.routing import OpenFrame, open_frame

if TYPE_CHECKING:
    from kwire.broker.controller_lease import ControllerLease

LOOK_S = 50e-6
"""How long the poller checks for the next request before it sleeps."""

MAX_PATIENCE = 32

GATHER_FROM = 16
"""If at least this many connections are ready, their responses are gathered."""

GATHER_MOST = 32


class Pollable(Protocol):
    """A connection as the poller sees it; times are trio's clock in seconds."""

    peer_host: str
    listener: str
    last_active_s: float

    @property
    def used_s(self) -> float:
        """The time that the connection's requests have taken so far."""

    def charge(self, spent_s: float) -> None:
        """Count the time of one call below."""

    def fileno(self) -> int:
        """The descriptor of the socket."""

    def on_readable(self) -> None:
        """Serve the requests that have arrived."""

    def on_writable(self) -> None:
        """Continue to send."""

    def go_on(self) -> None:
        """Continue the request in hand, because its change has happened."""

    def send_gathered(self) -> None:
        """Send the responses that were gathered."""

    def close_nowait(self) -> None:
        """End the connection after the request that is being served."""

    def abort_nowait(self) -> None:
        """End the connection at once, even while a request waits."""

    def release_memory(self) -> None:
        """Free the memory that an idle connection doesn't need."""


class Poller:
    """The connections of a server. ``run`` serves them; tasks for slow work run in ``nursery``.

    With ``own_wait`` the poller sleeps in its own selector. ``counters`` counts what it does.
    ``ready_s`` is when the connections of this pass were found ready, by ``perf_counter``.
    ``open_frame`` finds the route of a request. ``lease`` checks whether a broker is cut off.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        own_wait: OwnWait | None = None,
        counters: MetricsCounters | None = None,
        open_frame: OpenFrame = open_frame,
    ) -> None:
        self.open_frame = open_frame
        self.counters = counters or MetricsCounters()
        self.ready_s = perf_counter()
        self.connections: set[Pollable] = set()
        self.per_address: Counter[str] = Counter()
        self.lease: ControllerLease | None = None
        self.scratch = Scratch(self.start_task)
        self.deadlines = Deadlines()
        self.turns = Turns()
        self.buffered = BufferedBytesLimit()
        self.arriving = BufferedBytesLimit(ARRIVING, "of a request have arrived")
        self.unauthenticated = UnauthenticatedConnections()
        self.now_s = trio.current_time()
        self._nursery = nursery
        self._selector = selectors.DefaultSelector()
        self._own_wait = own_wait
        if own_wait is not None:
            self.watch(own_wait)
        self._again: dict[Watched, None] = {}  # in the order in which they asked
        self._woken: list[tuple[int, int, Pollable]] = []  # a heap
        self._woken_so_far = 0
        self._afterwards: list[Callable[[], object]] = []
        self.gathers = self.expects_nothing = False
        self._gathered: list[Pollable] = []
        self._is_in_turn = False
        self._has_turn_soon = False
        self._is_asleep = False  # whether the poller's own task waits for connections
        self._ready_queue = ReadyQueue()
        self._has_ended = False
        self._all_gone = trio.Event()
        # On a single processor, looking would only take time from the clients on this machine.
        self.looks = len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else "ab") > 1
        self._patience = MAX_PATIENCE

    def add(self, connection: Pollable) -> None:
        """Begin to serve a connection; OSError if the kernel refuses to watch it."""
        self.watch(connection)  # first: if the kernel refuses, the connection isn't counted
        self.connections.add(connection)
        self.per_address[connection.peer_host] += 1

    def remove(self, connection: Pollable) -> None:
        """Forget a connection that has ended and isn't watched any more."""
        self.connections.discard(connection)
        self.per_address[connection.peer_host] -= 1
        if not self.per_address[connection.peer_host]:
            del self.per_address[connection.peer_host]
        if not self.connections:
            self._all_gone.set()
            if self._has_ended:
                self._selector.close()

    def watch(self, connection: Watched) -> None:
        """Call ``on_readable`` of the connection whenever it is readable."""
        self._selector.register(connection.fileno(), selectors.EVENT_READ, connection)

    def watch_writing(self, connection: Pollable) -> None:
        """Watch a connection, which is watched for reading, only for writing."""
        fd = connection.fileno()
        self._ready_queue.leave(fd)
        self._selector.modify(fd, selectors.EVENT_WRITE, connection)

    def watch_reading(self, connection: Pollable) -> None:
        """Watch a connection, which is watched for writing, for reading again."""
        fd = connection.fileno()
        self._ready_queue.leave(fd)
        self._selector.modify(fd, selectors.EVENT_READ, connection)

    def unwatch(self, connection: Watched) -> None:
        """Stop watching a connection."""
        if not self._has_ended:  # the selector of an ended poller watches nothing
            fd = connection.fileno()
            self._ready_queue.leave(fd)
            self._selector.unregister(fd)

    def serve_again(self, connection: Watched) -> None:
        """Call ``on_readable`` again in the next turn, for requests beyond the limit of a turn.

        If this isn't called in a turn, the poller's own task may be asleep.
        """
        self._again[connection] = None
        self._take_turn_soon()

    def wake(self, connection: Pollable, size: int = 1) -> None:
        """Call ``go_on`` in this turn; between turns, in a turn for woken connections.

        ``size`` is how much it then has to look at. Those with less go first.
        """
        self._woken_so_far += 1
        heappush(self._woken, (self._woken_so_far + size, self._woken_so_far, connection))
        self._take_turn_soon()

    def do_afterwards(self, function: Callable[[], object]) -> None:
        """Call ``function`` after the responses of this turn are sent; between turns, at once."""
        if self._is_in_turn:
            self._afterwards.append(function)
        else:
            function()

    def start_task(self, function: Callable[[], Awaitable[None]]) -> None:
        """Run slow work in a task."""
        self._nursery.start_soon(function)

    async def wait_all_gone(self) -> None:
        """Wait until no connection is left."""
        if self.connections:
            self._all_gone = trio.Event()
            await self._all_gone.wait()

    async def run(self) -> None:
        """Serve the connections, forever."""
        self._nursery.start_soon(self.deadlines.run)
        own = self._own_wait
        try:
            while True:
                if self._again or self._woken or own is not None:
                    await trio.lowlevel.checkpoint()
                else:
                    self._is_asleep = True
                    try:
                        await trio.lowlevel.wait_readable(self._selector.fileno())
                    finally:
                        self._is_asleep = False
                if own is not None:
                    own.is_trios_turn = False  # trio has just had its turn
                self._is_in_turn = True
                wait_s = 0.0
                while not self._take_turn(wait_s) and own is not None and not self._woken:
                    wait_s = own.wait_s(self.deadlines.soonest_s)
                    if not wait_s:
                        break
                self._is_in_turn = False
        finally:
            self._is_in_turn = False
            # A connection with a task ends in that task, a little later.
            for connection in list(self.connections):
                connection.abort_nowait()
            self._has_ended = True
            if not self.connections:
                self._selector.close()
            self._finish_turn()  # after a turn that has failed

    def _take_turn(self, wait_s: float) -> bool:
        """Serve the connections that are ready within ``wait_s``, and those that follow meanwhile.

        Returns whether there may be more to do, here or in other tasks; if not, the poller sleeps.
        """
        select = self._selector.select
        ready = select(wait_s)
        self.expects_nothing = False
        self.turns.begin_pass()
        self.now_s = trio.current_time()
        if self.lease is not None:
            self.lease.check_deadline()
        served_s = begin_s = self.ready_s = perf_counter()
        while True:
            again = list(self._again)
            if again:  # their next bytes wait behind the others
                ready = [event for event in ready if event[0].data not in self._again]
            self._serve_ready(ready)
            self._serve_again(again)
            if self._woken or self._afterwards:
                self._follow_up()
            now_s = perf_counter()
            if self.counters.is_on and (ready or again):
                self.counters.end_pass(now_s - self.ready_s)
            self.ready_s = now_s
            if self.turns.is_over or self._again or self._ready_queue:
                return True
            if ready:
                self._patience = min(self._patience + (served_s > begin_s), MAX_PATIENCE)
                served_s = now_s
                if self.expects_nothing or not self._may_look():
                    return self._own_wait is not None and self._own_wait.is_trios_turn
            elif now_s - served_s > LOOK_S:
                self._patience = self._patience - 1 if self._patience else -MAX_PATIENCE
                return False
            ready = select(0)

    def _serve_again(self, again: list[Watched]) -> None:
        """Serve at least one connection that has more requests, and others until the pass is spent.

        The remaining connections stay ahead of connections that ask meanwhile.
        """
        done = 0
        turns = self.turns
        for connection in again:
            del self._again[connection]
            begin_s = turns.clock()
            connection.on_readable()
            connection.charge(turns.clock() - begin_s)
            done += 1
            if turns.is_over:
                break
        if self._again:
            self._again = dict.fromkeys(again[done:]) | self._again

    def _follow_up(self) -> None:
        """Serve the woken connections, and do the work that was put off."""
        if self._woken:
            self._serve_woken()
        if self._afterwards:
            self._finish_turn()

    def _finish_turn(self) -> None:
        """Do the work that was put off until the responses are sent."""
        while self._afterwards:
            afterwards, self._afterwards = self._afterwards, []
            for function in afterwards:
                function()

    def gather(self, connection: Pollable) -> None:
        """Call ``send_gathered`` of this connection soon, in this turn."""
        self._gathered.append(connection)

    def _serve_ready(self, ready: list[Event]) -> None:
        """Serve the connections that are ready; those that this pass leaves are the queue."""
        queue = self._ready_queue
        if queue:
            queue.join(ready, self.turns)
            serve = self._serve if len(queue) < GATHER_FROM else self._serve_many
            serve(queue.take())
        else:
            serve = self._serve if len(ready) < GATHER_FROM else self._serve_many
            rest = iter(ready)
            serve(rest)
            queue.join(rest, self.turns)

    def _serve(self, ready: Iterator[Event]) -> int:
        """Serve connections until the pass is over, and count the time of each; how many."""
        clock, end_s = self.turns.clock, self.turns.pass_end_s
        begin_s = clock()
        served = 0
        while begin_s < end_s and (event := next(ready, None)):
            key, events = event
            connection = key.data
            if events == selectors.EVENT_READ:
                connection.on_readable()
            else:
                connection.on_writable()
            now_s = clock()
            connection.charge(now_s - begin_s)
            begin_s = now_s
            served += 1
        return served

    def _serve_many(self, ready: Iterator[Event]) -> None:
        """Serve some connections, send their responses, and so on.

        This is the fast path of ``_serve``, the slow twin, in which each connection sends at once.
        Every client gets the same bytes, as tests/connection/test_shared_scratch.py shows.
        """
        self.gathers = True
        served = GATHER_MOST
        while served == GATHER_MOST:
            served = self._serve(islice(ready, GATHER_MOST))
            gathered, self._gathered = self._gathered, []
            begin_s = self.turns.clock()
            for connection in gathered:
                connection.send_gathered()
                now_s = self.turns.clock()
                connection.charge(now_s - begin_s)
                begin_s = now_s
        self.gathers = False

    def _serve_woken(self) -> None:
        """Serve the woken connections, the smallest first; if there are many, some wait a turn."""
        clock = self.turns.clock
        begin_s = clock()
        end_s = begin_s + PASS_S
        last = self._woken_so_far  # connections that these wake have a later turn
        later = []
        while self._woken and begin_s < end_s:
            woken = heappop(self._woken)
            if woken[1] > last:
                later.append(woken)
                continue
            connection = woken[2]
            connection.go_on()
            now_s = clock()
            connection.charge(now_s - begin_s)
            begin_s = now_s
        for woken in later:
            heappush(self._woken, woken)

    def _take_turn_soon(self) -> None:
        """Have a task take a turn, if this isn't called in one: the poller's own may be asleep."""
        if not self._is_in_turn and not self._has_turn_soon:
            self._has_turn_soon = True
            self._nursery.start_soon(self._take_turn_of_woken)

    async def _take_turn_of_woken(self) -> None:
        # What asks again is served by the poller's own task, unless that sleeps.
        while self._woken or (self._again and self._is_asleep):
            self.now_s = trio.current_time()
            if self.lease is not None:
                self.lease.check_deadline()
            self.turns.begin_pass()
            self._is_in_turn = True
            if self._is_asleep:
                self._serve_again(list(self._again))
            self._serve_woken()
            self._is_in_turn = False
            if self._afterwards:
                self._finish_turn()
            if self._woken or self._again:
                await trio.lowlevel.checkpoint()
        self._has_turn_soon = False

    def _may_look(self) -> bool:
        """Whether to check the selector again instead of sleeping."""
        if not self.looks:
            return False
        if self._patience < 0:
            self._patience += 1
            return False
        if self._own_wait is not None:
            return not self._own_wait.others and not self._own_wait.is_trios_turn
        return trio.lowlevel.current_statistics().tasks_runnable == 0
