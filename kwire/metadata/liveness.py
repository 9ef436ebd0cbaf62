"""Whom the controller fences, by the sessions that the store shows; pure.

Rules:

- A broker is alive while the store shows a session of the process that is registered.
- A session that this controller has seen and that is gone has ended: the broker is fenced at once.
- A new controller gives every broker a whole session time to appear. It doesn't know since when a
  session is missing, and after an outage of the store all brokers begin new sessions. A broker
  without a session that is proven dead doesn't get this time.
- A worker that ends is started again at once, and its port stays open meanwhile. If nobody
  has replicas of what it has, it isn't fenced for a moment: clients wait at its port, and needn't
  look for a leader that isn't there.
- A broker may answer as a leader of replicated partitions until the deadline of its own session,
  which lies before the moment at which the store ends it.
"""

from collections.abc import Callable, Container, Mapping
from typing import NamedTuple

from kwire.metadata.image import BrokerImage, MetadataImage
from kwire.metadata.store import Sessions

MARGIN = 0.1
"""This part of a session's time is kept as a distance between deadline and end."""


RETURN_MS = 1000
"""A worker that has ended is usually back after a tenth of a second."""


class Verdict(NamedTuple):
    """Who is to be fenced now, and when to look again even if no session changes."""

    silent: frozenset[int]
    look_again_ms: float


class Liveness:
    """The view of one controller, from its election on."""

    def __init__(self, elected_ms: int, session_ms: int) -> None:
        self._grace_end_ms = elected_ms + session_ms
        self._seen: set[tuple[int, str]] = set()
        self._missing_ms: dict[tuple[int, str], int] = {}  # since when

    def judge(
        self,
        brokers: Mapping[int, BrokerImage],
        sessions: Sessions,
        now_ms: int,
        dead: Container[tuple[int, str]] = (),
        comes_back: Callable[[int], bool] = lambda node_id: False,
    ) -> Verdict:
        """Whom to fence among the registered brokers.

        ``dead`` are processes that are proven dead: (node id, incarnation). ``comes_back`` says
        whether to wait a moment for a broker that is missing.
        """
        alive = {(node_id, member.incarnation) for node_id, (member, _) in sessions.members.items()}
        self._seen |= alive
        missing = [
            (broker.node_id, broker.incarnation)
            for broker in brokers.values()
            if not broker.is_fenced and (broker.node_id, broker.incarnation) not in alive
        ]
        self._missing_ms = {one: self._missing_ms.get(one, now_ms) for one in missing}
        in_grace = now_ms < self._grace_end_ms
        silent: set[int] = set()
        look_again_ms = float("inf")
        for one, since_ms in self._missing_ms.items():
            if in_grace and one not in self._seen and one not in dead:
                look_again_ms = min(look_again_ms, self._grace_end_ms)
            elif now_ms < since_ms + RETURN_MS and comes_back(one[0]):
                look_again_ms = min(look_again_ms, since_ms + RETURN_MS)
            else:
                silent.add(one[0])
        return Verdict(frozenset(silent), look_again_ms)


def is_shared(image: MetadataImage, node_id: int) -> bool:
    """Whether another replica has what a broker has: it may lead, or waits for this one."""
    return any(
        node_id in row.isr + row.elr and {*row.isr, *row.elr} != {node_id}
        for topic in image.topics_by_name.values()
        for row in topic.partitions
    )


def deadline_ms(kept_ms: float, ttl_ms: int) -> float:
    """When a broker has to assume that its session is over, by its own steady clock.

    ``kept_ms`` is the time just before the last keepalive was sent that the store answered.
    """
    return kept_ms + ttl_ms * (1 - MARGIN)
