"""The bytes that one connection holds in memory while it waits for its client or a change.

These are responses that the client has to read first, and a large request that waits for a change.
``kwire.budget.buffered_bytes_limit`` bounds the bytes of all connections together. The buffer of a
large request is kept for the next request only if there is room for such a buffer of each
connection.
"""

from kwire.budget.work import Work
from kwire.connection.inbox import Inbox
from kwire.connection.outbox import Outbox
from kwire.connection.poller import Pollable, Poller
from kwire.dispatch.pending_request import Waiting


class BufferedBytes:
    """Counts the bytes of one connection, from ``start_counting`` to ``stop_counting``.

    Meanwhile the request's bytes don't count as held by its ``Work``. ``stop_counting`` gives them
    back to the ``Work``, because then the request continues.
    """

    __slots__ = ("_poller", "_request_bytes", "is_on")

    def __init__(self, poller: Poller) -> None:
        self._poller = poller
        self._request_bytes = 0
        self.is_on = False

    def start_counting(
        self, connection: Pollable, outbox: Outbox, work: Work, more_bytes: int = 0
    ) -> None:
        """Count what the connection holds; this may end the connection, or others.

        ``more_bytes`` are bytes that the connection holds elsewhere.
        """
        if self.is_on:
            return
        self.is_on = True
        self._request_bytes = work.held_bytes
        size_bytes = outbox.held_bytes + self._request_bytes + more_bytes
        work.release()
        self._poller.buffered.count_bytes(connection, size_bytes, self._poller.now_s)

    def stop_counting(self, connection: Pollable, work: Work) -> None:
        """Count nothing any more; harmless when nothing is counted."""
        if self.is_on:
            self.is_on = False
            self._poller.buffered.forget(connection)
            if self._request_bytes:
                work.hold(self._request_bytes)
                self._request_bytes = 0


def keep_buffer(inbox: Inbox, waiting: Waiting | None, poller: Poller) -> None:
    """Keep an empty buffer for the next request if there is as much room for each connection.

    A request that goes on in a task still uses it; one that waits for a change doesn't.
    """
    if waiting is None or waiting.change is not None:
        inbox.keep(poller.arriving.share(len(poller.connections)))
