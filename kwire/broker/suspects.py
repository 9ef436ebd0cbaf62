"""The other brokers that this broker suspects to be dead, although they aren't fenced yet.

A client whose leader dies asks for Metadata at once, before another leader is elected. The answer
would name the dead leader, and many clients ask again only a second later. So the answer to such a
request waits a moment for the election.

Rules:

- This broker suspects another one when a connection breaks on which it fetches from the other, or
  on which it watches whether the other lives (``kwire.broker.proofs``). If no partition has
  followers, no broker fetches, and no broker is ever suspected.
- An answer waits until the suspected broker is fenced, because that elects other leaders, or until
  the suspected broker answers a fetch again. An answer waits at most until ``PATIENCE_S`` after the
  connection broke. Further failures of the same registration begin no other wait. No answer waits
  for a broker that stops in order, because it hands over its partitions before its connections end.
- If a partition has followers, each answer waits ``NOTICE_S`` first: a client may notice the death
  of a broker before this broker does.
- The next image of the metadata wakes the answers that wait. A wait needs no task.
- Answers contain a broker for ``REMEMBERED_S`` after it was fenced, if this process was connected
  with it. librdkafka 2.16 loses a partition for a second if one answer moves the partition away
  from a broker and no longer contains that broker. Kafka's answers contain a dead broker for
  longer, until its session ends. A process that has just started remembers nobody: if a whole
  cluster moves to other addresses, its answers contain only new ones.
"""

from collections.abc import Iterable
from typing import Protocol

import trio

from kwire.metadata.image import MetadataImage

PATIENCE_S = 0.4
"""An election after a death takes 0.1 to 0.3 s; see ``proofs``."""

NOTICE_S = 0.005
"""A client may ask a moment before this broker notices that its own connection has broken, too."""

REMEMBERED_S = 1.5
"""librdkafka looks for leaders at least once a second, while it lacks one."""


class Waiter(Protocol):
    """Waits for an election; a handler's ``Change`` is one."""

    def set(self) -> None:
        """Wake up."""


class Suspects:
    """The brokers that one broker suspects; ``waiters`` are woken when that may have changed."""

    def __init__(self) -> None:
        self.waiters: set[Waiter] = set()
        self._lost: dict[int, tuple[int, float]] = {}  # broker epoch, end of the wait
        self._met: set[int] = set()
        self._fenced_s: dict[int, float] = {}

    def meet(self, connected: Iterable[int], image: MetadataImage) -> None:
        """Note the brokers with which this process is connected: their node ids."""
        known = image.brokers
        self._met.update(n for n in connected if n in known and not known[n].is_fenced)

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

    def follow(self, image: MetadataImage) -> None:
        """Note which brokers are fenced, and wake the answers that wait for this image."""
        known = image.brokers
        fenced = {node for node in self._met if node in known and known[node].is_fenced}
        self._met -= fenced
        self._fenced_s |= dict.fromkeys(fenced, trio.current_time())
        self.look()

    def remembered(self) -> set[int]:
        """The brokers that were fenced just now: their node ids."""
        since_s = trio.current_time() - REMEMBERED_S
        self._fenced_s = {node: at_s for node, at_s in self._fenced_s.items() if at_s > since_s}
        return set(self._fenced_s)

    def look(self) -> None:
        """Wake the answers that wait."""
        for waiter in list(self.waiters):
            waiter.set()

    def wait_until_s(self, image: MetadataImage, notice_s: float) -> float | None:
        """Until when to wait for an election, by trio's clock; None if no election is expected.

        The time is at least ``notice_s``: until then, this broker may still notice a death.
        """
        now_s = trio.current_time()
        until_s = notice_s if now_s < notice_s else None
        for node_id, (epoch, end_s) in self._lost.items():
            registered = image.brokers.get(node_id)
            is_here = registered is not None and registered.epoch == epoch
            if is_here and image.brokers[node_id].is_active and now_s < end_s:
                until_s = max(end_s, until_s or 0.0)
        return until_s
