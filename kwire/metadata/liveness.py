"""Whom the controller fences, by the sessions that the store shows; pure.

Rules:

- A broker is alive while the store shows a session of the process that is registered.
- A session that this controller has seen and that is gone has ended: the broker is fenced at once.
- A new controller gives every broker a whole session time to appear. It doesn't know since when a
  session is missing, and after an outage of the store all brokers begin new sessions. A broker
  without a session that is proven dead doesn't get this time.
- A broker may answer as a leader of replicated partitions until the deadline of its own session,
  which lies before the moment at which the store ends it.
"""

from collections.abc import Container, Mapping
from typing import NamedTuple

from kwire.metadata.image import BrokerImage
from kwire.metadata.store import Sessions

MARGIN = 0.1
"""This part of a session's time is kept as a distance between deadline and end."""


class Verdict(NamedTuple):
    """Who is to be fenced now, and when to look again even if no session changes."""

    silent: frozenset[int]
    look_again_ms: float


class Liveness:
    """The view of one controller, from its election on."""

    def __init__(self, elected_ms: int, session_ms: int) -> None:
        self._grace_end_ms = elected_ms + session_ms
        self._seen: set[tuple[int, str]] = set()

    def judge(
        self,
        brokers: Mapping[int, BrokerImage],
        sessions: Sessions,
        now_ms: int,
        dead: Container[tuple[int, str]] = (),
    ) -> Verdict:
        """Whom to fence among the registered brokers.

        ``dead`` are processes that are proven dead: (node id, incarnation).
        """
        alive = {(node_id, member.incarnation) for node_id, (member, _) in sessions.members.items()}
        self._seen |= alive
        missing = [
            (broker.node_id, broker.incarnation)
            for broker in brokers.values()
            if not broker.is_fenced and (broker.node_id, broker.incarnation) not in alive
        ]
        in_grace = now_ms < self._grace_end_ms
        silent = frozenset(
            broker[0]
            for broker in missing
            if not in_grace or broker in self._seen or broker in dead
        )
        waits = in_grace and len(silent) < len(missing)
        return Verdict(silent, self._grace_end_ms if waits else float("inf"))


def deadline_ms(kept_ms: float, ttl_ms: int) -> float:
    """When a broker has to assume that its session is over, by its own steady clock.

    ``kept_ms`` is the time just before the last keepalive was sent that the store answered.
    """
    return kept_ms + ttl_ms * (1 - MARGIN)
