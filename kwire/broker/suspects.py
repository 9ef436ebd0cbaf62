"""Brokers that are perhaps being found dead: what is said of leaders now would soon be wrong.

A client whose leader dies asks for Metadata at once, before there is a new leader. It would be told
of the dead one, and many clients ask again only a second later. So such an answer waits a moment.

Rules:

- A broker is suspected when a connection to it has broken on which this broker fetches. Where
  nothing has followers, nobody is ever suspected.
- An answer waits until the broker is fenced, which elects other leaders, or answers a fetch again,
  and at most until ``PATIENCE_S`` after the connection broke. Further failures of the same
  registration begin no other wait.
- Where something has followers, each answer waits ``NOTICE_S`` first: a client may have noticed a
  death before this broker does.
- Who waits is woken by the next image; a wait needs no task.
- Clients are told of a broker for ``REMEMBERED_S`` after it was fenced. librdkafka 2.16 loses the
  partitions that move away from a broker with the same answer that no longer has the broker: it
  finds their new leaders a second later, with its next question. Kafka's dead brokers are there
  longer, until their sessions end.
"""

from typing import Protocol

import trio

from kwire.metadata.image import MetadataImage

PATIENCE_S = 0.4
"""An election after a death takes 0.1 to 0.3 s; see ``proofs``."""

NOTICE_S = 0.005
"""A client may ask a moment before this broker notices that its own connection has broken, too."""

REMEMBERED_S = 3.0


class Waiter(Protocol):
    """Waits for an election; a handler's ``Change`` is one."""

    def set(self) -> None:
        """Wake up."""


class Suspects:
    """The brokers that one broker suspects; ``waiters`` are woken when that may have changed."""

    def __init__(self) -> None:
        self.waiters: set[Waiter] = set()
        self._lost: dict[int, tuple[int, float]] = {}  # broker epoch, end of the wait
        self._fenced_s: dict[int, float] = {}

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

    def compare(self, before: MetadataImage, after: MetadataImage) -> None:
        """Note which brokers have been fenced with an image."""
        now_s = trio.current_time()
        for node_id, registered in after.brokers.items():
            known = before.brokers.get(node_id)
            if registered.is_fenced and known is not None and not known.is_fenced:
                self._fenced_s[node_id] = now_s

    def remembered(self) -> set[int]:
        """The brokers that were fenced just now: their node ids."""
        since_s = trio.current_time() - REMEMBERED_S
        self._fenced_s = {node: at_s for node, at_s in self._fenced_s.items() if at_s > since_s}
        return set(self._fenced_s)

    def look(self) -> None:
        """Have those who wait look at the newest image."""
        for waiter in list(self.waiters):
            waiter.set()

    def wait_until_s(self, image: MetadataImage, notice_s: float) -> float | None:
        """Until when to wait for an election, by trio's clock; None if none is to be expected.

        It is at least ``notice_s``, the end of the time in which a death may be noticed.
        """
        now_s = trio.current_time()
        until_s = notice_s if now_s < notice_s else None
        for node_id, (epoch, end_s) in self._lost.items():
            registered = image.brokers.get(node_id)
            is_here = registered is not None and registered.epoch == epoch
            if is_here and not image.brokers[node_id].is_fenced and now_s < end_s:
                until_s = max(end_s, until_s or 0.0)
        return until_s
