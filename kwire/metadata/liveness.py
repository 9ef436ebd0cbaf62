"""Which brokers the controller fences, by the sessions in the metadata store; pure.

Rules:

- A broker is alive while the store has a session of its registered process.
- If a session that this controller has seen is gone, the broker is fenced at once.
- A new controller waits a whole session time for the session of every broker, because it doesn't
  know how long a session has been missing. After an outage of the
  store, all brokers begin new sessions. A broker whose process is proven dead doesn't get this
  time.
- A worker whose process ends is started again at once, and its port stays open meanwhile. If no
  other broker has replicas of its partitions, it is fenced only after ``RETURN_MS``: until then
  clients wait at its port, and don't look for another leader in vain.
- A broker may answer as the leader of replicated partitions until the deadline of its session. The
  deadline is earlier than the end of the session in the store.
"""

from collections.abc import Callable, Container, Mapping
from typing import NamedTuple

from kwire.metadata.image import BrokerImage, MetadataImage
from kwire.metadata.store import Sessions

MARGIN = 0.1
"""The part of a session's time by which the deadline is earlier than the end."""

RETURN_MS = 1000
"""How long a worker may be away before it is fenced. It is usually back after 0.1 s."""


class Verdict(NamedTuple):
    """The brokers to fence now, and when to look again even if no session changes."""

    silent: frozenset[int]
    look_again_ms: float


class Liveness:
    """The sessions as one controller knows them since its election."""

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
        """Decide which of the registered brokers to fence.

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
                assert look_again_ms > now_ms, (look_again_ms, now_ms)
            else:
                silent.add(one[0])
        alive_nodes = {one for one in self._missing_ms if one in alive}
        assert not alive_nodes, alive_nodes  # nobody with a session is fenced
        return Verdict(frozenset(silent), look_again_ms)


def is_shared(image: MetadataImage, node_id: int) -> bool:
    """Whether a broker's partitions have other replicas, which may lead or wait for this one."""
    return any(
        node_id in row.isr + row.elr and {*row.isr, *row.elr} != {node_id}
        for topic in image.topics_by_name.values()
        for row in topic.partitions
    )


def deadline_ms(kept_ms: float, ttl_ms: int) -> float:
    """The time on its own steady clock from which a broker must assume that its session is over.

    ``kept_ms`` is the time just before it sent the last keepalive that the store has answered.
    """
    return kept_ms + ttl_ms * (1 - MARGIN)
