"""Which brokers the controller fences, by the sessions in the metadata store; pure.

Rules:

- A broker is alive while the store has a session of the process that is registered.
- If a session that this controller has seen is gone, the broker is fenced at once.
- A new controller waits a whole session time for the session of every broker, because it doesn't
  know since when a session is missing. After an outage of the store, all brokers begin new
  sessions. A broker whose process is proven dead doesn't get this time.
- A broker may answer as the leader of replicated partitions until the deadline of its session. The
  deadline is earlier than the end of the session in the store.
"""

from collections.abc import Container, Mapping
from typing import NamedTuple

from kwire.metadata.image import BrokerImage
from kwire.metadata.store import Sessions

MARGIN = 0.1
"""The part of a session's time by which the deadline is earlier than the end."""


class Verdict(NamedTuple):
    """The brokers to fence now, and when to look again even if no session changes."""

    silent: frozenset[int]
    look_again_ms: float


class Liveness:
    """What one controller knows of the sessions, from its election on."""

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
    """The time on its own steady clock from which a broker must assume that its session is over.

    ``kept_ms`` is the time just before it sent the last keepalive that the store has answered.
    """
    return kept_ms + ttl_ms * (1 - MARGIN)
