"""This broker's lease: while it lasts, the controller lets no other broker lead in its place.

Rules:

- A broker is *cut off* after the deadline of its session in the store. The deadline is the time
  when it sent the last keepalive that was answered, plus the session's time less a tenth. It is
  also cut off if the store says that the session is over. After that, others may elect new leaders.
- The clock goes on while the machine sleeps. The poller checks the deadline in each turn before it
  serves requests. So a process that was stopped for a while acknowledges nothing too late. The
  session of a worker has no deadline, and no clock is read for it.
- The broker is no longer cut off when the store answers again, or when it has a new session.
- A broker that stops ends its session itself. Then it is cut off too, and the log doesn't warn.
- The session of a worker ends with its supervisor, or when the supervisor ends the worker. Other
  lines tell of that, so the log doesn't warn either.

``AlterPartitionManager.refuses`` says which appends a broker refuses while it is cut off.
"""

import logging
from collections.abc import Callable

import trio

from kwire.metadata.liveness import deadline_ms
from kwire.metadata.store import Session

log = logging.getLogger(__name__)

FOR_EVER_MS = float("inf")
SOON_S = 0.05
LATE_S = 1.0
"""The longest time between two checks of the task ``run``."""


class ControllerLease:
    """Watches one broker's session; ``on_change`` is called whenever ``is_cut_off`` changes."""

    def __init__(self, steady_ms: Callable[[], int]) -> None:
        self.is_cut_off = False
        self.on_change: Callable[[bool], object] = lambda _is_cut_off: None
        self._steady_ms = steady_ms
        self._session: Session | None = None
        self._kept_ms = self._deadline_ms = FOR_EVER_MS
        self._is_leaving = False

    def watch_session(self, session: Session) -> None:
        """Watch this session from now on: the broker is registered with it."""
        self._session = session
        self._kept_ms = session.kept_ms
        self._deadline_ms = deadline_ms(session.kept_ms, session.ttl_ms)
        self.check_deadline()

    def watches(self, session: Session) -> bool:
        """Whether this is the session with which the broker is registered."""
        return self._session is session

    def expect_end(self) -> None:
        """The broker is about to end its session itself."""
        self._is_leaving = True

    def check_deadline(self) -> None:
        """Check the deadline, and note whether the broker is cut off now."""
        session = self._session
        if session is None:
            return
        if session.kept_ms != self._kept_ms:
            assert session.kept_ms > self._kept_ms, (session.kept_ms, self._kept_ms)
            self._kept_ms = session.kept_ms
            self._deadline_ms = deadline_ms(session.kept_ms, session.ttl_ms)
        is_cut_off = session.is_over or (
            self._deadline_ms != FOR_EVER_MS and self._steady_ms() >= self._deadline_ms
        )
        if is_cut_off == self.is_cut_off:
            return
        self.is_cut_off = is_cut_off
        is_expected = self._is_leaving or self._deadline_ms == FOR_EVER_MS
        if is_cut_off and not is_expected:
            log.warning(
                "the metadata store doesn't answer: other brokers may lead instead of this one, "
                "which acknowledges only records that its followers have"
            )
        elif not is_cut_off and not is_expected:
            log.info("the metadata store answers again")
        self.on_change(is_cut_off)

    async def run(self) -> None:
        """Check the deadline, forever, in case the broker gets no requests."""
        while True:
            self.check_deadline()
            left_s = (self._deadline_ms - self._steady_ms()) / 1000
            await trio.sleep(min(max(left_s, SOON_S), LATE_S))
