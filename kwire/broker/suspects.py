"""Brokers that are perhaps being found dead: what is said of leaders now would soon be wrong.

A client whose leader dies asks for Metadata at once, before there is a new leader. It would be told
of the dead one, and many clients ask again only a second later. So such an answer waits a moment.

Rules:

- A broker is suspected when a connection to it has broken on which this broker fetches. Where
  nothing has followers, nobody is ever suspected.
- An answer waits until the broker is fenced, which elects other leaders, or answers a fetch again,
  and at most until ``PATIENCE_S`` after the connection broke. Further failures of the same
  registration begin no other wait.
- Who waits is woken by the next image; a wait needs no task.
"""

from typing import Protocol

import trio

from kwire.metadata.image import MetadataImage

PATIENCE_S = 0.4
"""An election after a death takes 0.1 to 0.3 s; see ``proofs``."""


class Waiter(Protocol):
    """Waits for an election; a handler's ``Change`` is one."""

    def set(self) -> None:
        """Wake up."""


class Suspects:
    """The brokers that one broker suspects; ``waiters`` are woken when that may have changed."""

    def __init__(self) -> None:
        self.waiters: set[Waiter] = set()
        self._lost: dict[int, tuple[int, float]] = {}  # broker epoch, end of the wait

    def lost(self, node_id: int, image: MetadataImage) -> None:
        """Note that the connection to a broker has broken, or can't be opened."""
        registered = image.brokers.get(node_id)
        if registered is None:
            self._lost.pop(node_id, None)
        elif self._lost.get(node_id, (-1, 0.0))[0] != registered.epoch:
            self._lost[node_id] = registered.epoch, trio.current_time() + PATIENCE_S

    def answered(self, node_id: int) -> None:
        """Note that a broker lives."""
        if self._lost.pop(node_id, None) is not None:
            self.look()

    def look(self) -> None:
        """Have those who wait look at the newest image."""
        for waiter in list(self.waiters):
            waiter.set()

    def wait_until_s(self, image: MetadataImage) -> float | None:
        """Until when to wait for an election, by trio's clock; None if none is to be expected."""
        until_s, now_s = None, trio.current_time()
        for node_id, (epoch, end_s) in self._lost.items():
            registered = image.brokers.get(node_id)
            is_here = registered is not None and registered.epoch == epoch
            if is_here and not image.brokers[node_id].is_fenced and now_s < end_s:
                until_s = max(end_s, until_s or 0.0)
        return until_s
