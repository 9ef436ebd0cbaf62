"""The duties of the controller: it fences brokers, elects leaders, and cleans up the metadata
store.

Rules:

- The broker that holds the controller's key in the store is the controller. It commits under this
  key, so a broker that has lost the key can't change anything.
- The commit that fences a broker also elects new leaders for its partitions.
- If ``auto.leader.rebalance.enable`` is set, preferred leaders are elected every
  ``leader.imbalance.check.interval.seconds``. Every ``unclean.leader.election.interval.ms``,
  leaders are elected for partitions without a leader.
"""

import logging
from collections.abc import Callable, Container
from functools import partial

from kwire.broker.broker import Broker
from kwire.broker.proposals import Decide
from kwire.clock import Clock
from kwire.metadata.changes import Change
from kwire.metadata.image import MetadataImage
from kwire.metadata.liveness import Liveness, is_shared
from kwire.metadata.preferred_leader_election import (
    MOST_ELECTIONS,
    count_elections,
    elect_missing_leaders,
    elect_preferred_leaders,
)
from kwire.metadata.registration import elect_controller, fence
from kwire.metadata.store import Guard, MetadataStore, Session, Sessions

log = logging.getLogger(__name__)


class ControllerDuties:
    """The duties of one broker while it is the controller."""

    def __init__(self, store: MetadataStore, clock: Clock, session_ms: int) -> None:
        self._store = store
        self._clock = clock
        self._session_ms = session_ms
        self._held: tuple[Guard, Liveness] | None = None
        self._balance_ms = self._elect_ms = 0

    def is_held(self, sessions: Sessions) -> bool:
        """Whether this broker is the controller."""
        holder = sessions.controller
        return self._held is not None and holder is not None and holder[1] == self._held[0]

    def give_up(self) -> None:
        """Note that this broker has lost its session, and with the session the key."""
        self._held = None

    async def start_term(self, broker: Broker, session: Session) -> bool:
        """Become the controller; False if another broker is.

        Raises KafkaError if the other brokers can't be told of it: then it has to be tried again.
        """
        guard = await self._store.hold_controller(session)
        if guard is None:
            return False
        now_ms = self._clock.steady_ms()
        await broker.commit(lambda image: elect_controller(image, broker.node_id), guard=guard)
        log.info("this broker is the controller")
        self._held = guard, Liveness(now_ms, self._session_ms)
        self._balance_ms = now_ms + _balance_every_ms(broker)
        self._elect_ms = now_ms + _elect_every_ms(broker)
        return True

    async def perform(
        self, broker: Broker, sessions: Sessions, dead: Container[tuple[int, str]]
    ) -> float:
        """Do the duties whose time has come. Returns the ms until the next duty, if no session
        changes before.

        ``dead`` has the processes that are proven dead: (node id, incarnation).
        """
        if self._held is None or not self.is_held(sessions):
            self._held = None  # another broker is the controller by now
            return float("inf")
        guard, liveness = self._held
        now_ms = self._clock.steady_ms()
        verdict = liveness.judge(
            broker.image.brokers, sessions, now_ms, dead, partial(_comes_back, broker)
        )
        if verdict.silent:
            _log_fenced(verdict.silent, broker.image)
            await broker.commit(apart(broker, fence, verdict.silent), guard=guard)
        await self._elect(broker, guard, now_ms)
        await self._store.upkeep(broker.image, guard)
        return min(verdict.look_again_ms, self._balance_ms, self._elect_ms) - now_ms

    async def _elect(self, broker: Broker, guard: Guard, now_ms: int) -> None:
        """Elect preferred leaders, and leaders for partitions without one, if it is time."""
        if now_ms >= self._elect_ms:
            self._elect_ms = now_ms + _elect_every_ms(broker)
            await broker.commit(apart(broker, elect_missing_leaders), guard=guard)
        if now_ms >= self._balance_ms:
            self._balance_ms = now_ms + _balance_every_ms(broker)
            if broker.setting("auto.leader.rebalance.enable"):
                await self._balance(broker, guard, now_ms)

    async def _balance(self, broker: Broker, guard: Guard, now_ms: int) -> None:
        done = 0

        def decide(image: MetadataImage) -> list[Change]:
            nonlocal done
            changes = elect_preferred_leaders(image)
            done = count_elections(changes)
            return changes

        await broker.commit(apart(broker, decide), guard=guard)
        if done:
            log.info("elected %d preferred leaders", done)
        if done == MOST_ELECTIONS:
            self._balance_ms = now_ms  # there may be more of these partitions


def _comes_back(broker: Broker, node_id: int) -> bool:
    """Whether a missing broker is a worker whose partitions no other broker has."""
    if broker.integer("kwire.workers") < 2 or broker.image.brokers[node_id].is_shutting_down:
        return False
    return not is_shared(broker.image, node_id)


def _log_fenced(silent: frozenset[int], image: MetadataImage) -> None:
    """Log which brokers are fenced. It is no warning if a broker has handed its leadership over."""
    known = image.brokers
    stopped = {node for node in silent if node in known and known[node].is_shutting_down}
    if stopped:
        log.info("fencing brokers that have stopped: %s", sorted(stopped))
    if silent - stopped:
        log.warning("fencing brokers without a session: %s", sorted(silent - stopped))


def apart(broker: Broker, decide: Callable[..., list[Change]], *arguments: object) -> Decide:
    """A decision that looks at every partition: it is made in a thread."""
    return lambda image: broker.threads.deciding.run(decide, image, *arguments)


def _balance_every_ms(broker: Broker) -> int:
    return broker.integer("leader.imbalance.check.interval.seconds") * 1000


def _elect_every_ms(broker: Broker) -> int:
    return broker.integer("unclean.leader.election.interval.ms")
