"""Whether this broker reaches the metadata store, or may have been deposed without knowing it.

Rules:

- A broker is *cut off* from the deadline of its session on: the time before the last keepalive that
  was answered was sent, and the session's time less a tenth. It also is when the store says that
  the session is over. From then on others may elect leaders in its place.
- The clock is one that goes on while the machine sleeps. The poller looks once in each turn, before
  it serves anything: a process that was stopped acknowledges nothing as if no time had passed.
- It is cut off no more when the store answers again, or when it has registered with a new session.
- A broker that stops ends its session itself: it is cut off too, and the log says nothing of it.

What a broker refuses meanwhile, ``IsrUpdates.refuses`` says.
"""

import logging
from collections.abc import Callable

import trio

from kwire.metadata.liveness import deadline_ms
from kwire.metadata.store import Session

log = logging.getLogger(__name__)

SOON_S = 0.05
LATE_S = 1.0
"""How often ``run`` looks, where no deadline is nearer."""


class Reach:
    """Looks at the session of one broker; ``told`` is called whenever ``is_out`` has changed."""

    def __init__(self, steady_ms: Callable[[], int]) -> None:
        self.is_out = False
        self.told: Callable[[bool], object] = lambda _is_out: None
        self._steady_ms = steady_ms
        self._session: Session | None = None
        self._is_leaving = False

    def begin(self, session: Session) -> None:
        """Look at this session from now on: the broker is registered with it."""
        self._session = session
        self.look()

    def looks_at(self, session: Session) -> bool:
        """Whether this is the session with which the broker is registered."""
        return self._session is session

    def leave(self) -> None:
        """The broker is about to end its session itself."""
        self._is_leaving = True

    def look(self) -> None:
        """Note whether the broker is cut off now."""
        is_out = self._left_ms() <= 0
        if is_out == self.is_out:
            return
        self.is_out = is_out
        if is_out and not self._is_leaving:
            log.warning(
                "the metadata store doesn't answer: other brokers may lead instead of this one, "
                "which acknowledges only what its followers have"
            )
        elif not is_out:
            log.info("the metadata store answers again")
        self.told(is_out)

    async def run(self) -> None:
        """Look at the deadline, for ever, for a broker that has nothing else to do."""
        while True:
            self.look()
            left_s = self._left_ms() / 1000
            await trio.sleep(min(max(left_s, SOON_S), LATE_S))

    def _left_ms(self) -> float:
        session = self._session
        if session is None:
            return 1
        if session.is_over:
            return 0
        return deadline_ms(session.kept_ms, session.ttl_ms) - self._steady_ms()
