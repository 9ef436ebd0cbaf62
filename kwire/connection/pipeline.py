"""Appends Produce requests of one connection while an earlier one waits for replicas.

Kafka reads a request only when the previous request is answered. With acks=all, a producer with
several requests in flight would wait for the replicas once for each of them. So kwire appends the
next requests meanwhile, and answers all in order.

Rules:

- Only Produce requests that aren't large are appended early. Any other request waits for its turn,
  and so do all requests after it. They also wait for a request that waits for anything but
  replicas, or that ends the connection.
- At most ``MOST_WAITING`` requests and ``MOST_BYTES`` of them wait. Beyond that, nothing is read.
- None is appended after the end of a pass of the event loop.
- The first request is the connection's current request. When it is answered, the next one becomes
  the current request.
"""

from collections import deque

from kwire.budget.work import Turns
from kwire.connection.inbox import Inbox
from kwire.dispatch.serving import Behind, Serving

MOST_WAITING = 64
MOST_BYTES = 256 * 1024

RESTING_BYTES = 16 * 1024
"""Less memory of waiting requests than this isn't counted; see ``connection.buffered_bytes``."""

PRODUCE_KEY = 0


class Pipeline:
    """The requests behind the one in hand, in order."""

    __slots__ = ("_behind", "_held_bytes", "_inbox", "_is_blocked", "_serving")

    def __init__(self, serving: Serving, inbox: Inbox) -> None:
        self._serving = serving
        self._inbox = inbox
        self._behind: deque[Behind] = deque()
        self._held_bytes = 0
        self._is_blocked = False

    @property
    def takes_more(self) -> bool:
        """Whether another request may be appended early."""
        return (
            not self._is_blocked
            and len(self._behind) < MOST_WAITING - 1
            and self._held_bytes < MOST_BYTES
        )

    @property
    def resting_bytes(self) -> int:
        """The memory that counts as resting."""
        return self._held_bytes if self._held_bytes > RESTING_BYTES else 0

    def block(self) -> None:
        """Append no further request early until all are answered."""
        self._is_blocked = True

    def serve(self, turns: Turns) -> None:
        """Append at least one request that has arrived, and as many more as may be."""
        inbox = self._inbox
        while inbox.has_frame and self.takes_more:
            self._serve_one()
            if turns.is_over:
                return

    def _serve_one(self) -> None:
        frame = self._inbox.next_frame_if(PRODUCE_KEY)
        behind = None if frame is None else self._serving.serve_behind(frame)
        if frame is None or behind is None:
            self._is_blocked = True
            if frame is not None:
                self._inbox.put_back(frame)
            return
        self._is_blocked = not behind.waits_for_replicas
        self._behind.append(behind)
        self._held_bytes += behind.size_bytes

    def answer_ready(self) -> None:
        """Answer the requests after the one that was just answered, up to one that waits.

        Raises ConnectionClosed for a request that ends the connection.
        """
        serving = self._serving
        while self._behind and serving.waiting is None:
            behind = self._behind.popleft()
            self._held_bytes -= behind.size_bytes
            serving.take_up(behind)
            waiting = serving.waiting
            if waiting is not None and waiting.is_acknowledged:
                serving.finish(waiting)

    def close(self) -> None:
        """Drop the requests, because the client can't get their answers any more."""
        for behind in self._behind:
            behind.close()
        self._behind.clear()
