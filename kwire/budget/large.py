"""How many bytes all large requests and their responses hold at the same time.

A limit for each connection alone does not bound the memory of a broker with many connections: 200
small requests may each ask for a response of many megabytes. So large requests, and requests with a
large response, share ``kwire.large.requests.max.bytes``.

Rules:

- A request enters a room with the first bytes that it holds (``Work.hold``). It enters if its bytes
  fit beside those of the requests that are inside already, or if no other request is inside.
- There is a room for requests of at most ``SMALL_BYTES``, and one for larger requests: a client
  with a small request waits for no giant. The small room has a quarter of the limit.
- A request that grows beyond ``SMALL_BYTES`` leaves the small room and enters the other one.
- ``kwire.budget.fair_queue`` says which of the requests that wait to enter is next: usually the one
  whose connection has used the least time.
- A request that is inside may grow. If all together hold more than the limit, only the request that
  entered first goes on, so that it ends, and the others wait for it. So the limit is exceeded by
  one growing response at most, which ``kwire.response.max.bytes`` bounds.
- A request leaves when its response is made, when it rests until something changes
  (``budget.buffered_bytes_limit``), or when its connection ends.
- A request enters and waits only between two slices. It never waits while it holds the queue for
  changes of metadata, or a thread: so the request that goes on waits for none of the others.
"""

from collections.abc import Callable
from typing import Protocol

import trio

from kwire.budget.fair_queue import FairQueue, Ticket

SETTING = "kwire.large.requests.max.bytes"

SMALL_BYTES = 2 << 20
SMALL_SHARE = 4
"""The small room has one part in so many of the limit."""


class Holder(Protocol):
    """The work of a connection, as ``LargeRequests`` sees it."""

    held_bytes: int
    used_s: float


class LargeRequests:
    """The large requests in hand, in their two rooms."""

    def __init__(self) -> None:
        self.max_bytes: Callable[[], int] = lambda: 1 << 62
        self._small = _Room(lambda: self.max_bytes() // SMALL_SHARE)
        self._large = _Room(lambda: self.max_bytes() * (SMALL_SHARE - 1) // SMALL_SHARE)

    @property
    def held_bytes(self) -> int:
        """How many bytes the requests in both rooms hold."""
        return self._small.held_bytes + self._large.held_bytes

    def grow(self, holder: Holder, size_bytes: int) -> None:
        """Count more bytes of a request, if it is in a room."""
        self._small.grow(holder, size_bytes)
        self._large.grow(holder, size_bytes)

    async def wait(self, holder: Holder) -> None:
        """Enter a room; once inside, wait while too much is held, except if it is the first."""
        if holder.held_bytes <= SMALL_BYTES:
            await self._small.wait(holder)
            return
        self._small.leave(holder)
        await self._large.wait(holder)

    def leave(self, holder: Holder) -> None:
        """Forget a request; requests that wait go on as far as there is room."""
        self._small.leave(holder)
        self._large.leave(holder)


class _Entry(Ticket):
    """The place of a request that waits to enter."""

    __slots__ = ("holder",)

    def __init__(self, holder: Holder) -> None:
        super().__init__()
        self.holder = holder


class _Room:
    """The requests inside, which count, and the requests that wait to enter."""

    def __init__(self, max_bytes: Callable[[], int]) -> None:
        self.max_bytes = max_bytes
        self.held_bytes = 0
        self._inside: dict[Holder, trio.Event | None] = {}
        self._waiting: FairQueue[_Entry] = FairQueue()

    def grow(self, holder: Holder, size_bytes: int) -> None:
        """Count more bytes of a request, if it is inside."""
        if holder in self._inside:
            self.held_bytes += size_bytes

    async def wait(self, holder: Holder) -> None:
        """Enter; once inside, wait while the requests hold too much, except the first of them."""
        if holder not in self._inside:
            await self._enter(holder)
        while self.held_bytes > self.max_bytes() and next(iter(self._inside)) is not holder:
            turn = self._inside[holder] = trio.Event()
            await turn.wait()
            if holder not in self._inside:
                return  # its connection has ended meanwhile

    def leave(self, holder: Holder) -> None:
        """Forget a request; requests that wait go on as far as there is room."""
        if holder not in self._inside:
            return
        turn = self._inside.pop(holder)
        if turn is not None:
            turn.set()
        self.held_bytes -= holder.held_bytes
        self._go_on()

    async def _enter(self, holder: Holder) -> None:
        if not self._waiting and self._fits(holder):
            self._admit(holder)
            return
        entry = _Entry(holder)
        self._waiting.add(holder.used_s, entry)
        try:
            await entry.turn.wait()
        except BaseException:
            if entry.is_called:
                self.leave(holder)
            else:
                entry.has_left = True
                self._go_on()
            raise

    def _fits(self, holder: Holder) -> bool:
        return not self._inside or self.held_bytes + holder.held_bytes <= self.max_bytes()

    def _admit(self, holder: Holder) -> None:
        self._inside[holder] = None
        self.held_bytes += holder.held_bytes

    def _go_on(self) -> None:
        """Wake the requests inside if they may go on, and admit others while they fit."""
        if self._inside:
            has_room = self.held_bytes <= self.max_bytes()
            for holder in list(self._inside) if has_room else [next(iter(self._inside))]:
                turn = self._inside[holder]
                if turn is not None:
                    self._inside[holder] = None
                    turn.set()
        entry = self._waiting.first()
        while entry is not None and self._fits(entry.holder):
            self._admit(entry.holder)
            self._waiting.call(entry)
            entry = self._waiting.first()
