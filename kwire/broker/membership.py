"""This broker as a member of a cluster: session, registration, and leaving it.

Rules:

- At its start, the broker begins a session, registers as fenced, reports which replicas are lost,
  and is unfenced. From then on ``run`` keeps it a member.
- A broker whose session is over begins a new session and registers again. A broker that was fenced
  by mistake registers again, too.
- A broker that finds no controller tries to become the controller (``controller_duties``).
- Replicas in a directory that has failed are given up, if other replicas have all records.
- In one commit, a broker that stops reports its stop and hands over its partitions. It serves
  requests until it has followed that commit, so that its clients learn of the new leaders.
- If a process is proven dead (``failure_detector``), its session is ended at once, before its lease
  is over. The controller proves the deaths of all other brokers, and the others prove the death of
  the controller. A broker that isn't the controller only suspects the other brokers
  (``failure_detector``).
- ``lease`` knows whether other brokers may lead this broker's partitions without its knowledge.
- A step that fails is tried again after a change of sessions, and every
  ``broker.heartbeat.interval.ms``.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import TypeAlias

import trio

from kwire.broker.broker import Broker
from kwire.broker.controller_duties import ControllerDuties, apart
from kwire.broker.controller_lease import ControllerLease
from kwire.broker.failure_detector import MOST_WATCHED, FailureDetector, Watched
from kwire.broker.first_commits import commit_decision
from kwire.broker.peers import inter_broker_address
from kwire.client.peer import OpenStream, open_tcp
from kwire.clock import Clock
from kwire.errors import KafkaError
from kwire.metadata.changes import Change
from kwire.metadata.image import BrokerImage, MetadataImage, PartitionImage, TopicImage
from kwire.metadata.lost_replicas import Held
from kwire.metadata.partition_change import without_replicas
from kwire.metadata.registration import register, shut_down, unfence
from kwire.metadata.store import (
    GuardFailed,
    Member,
    MetadataStore,
    NodeIdTaken,
    Session,
    Sessions,
)

log = logging.getLogger(__name__)

Lacks: TypeAlias = Callable[[BrokerImage | None], bool]
"""Whether replicas may lack records that they had under this registration."""

Prepare: TypeAlias = Callable[[MetadataImage], Awaitable[None]]

LEAVE_S = 3.0
"""How long a broker that stops tries to hand over its partitions."""

SOON_S = 0.05
"""The time between looks while a process has a session but isn't registered yet."""


class Membership:
    """The membership of one broker."""

    def __init__(
        self,
        store: MetadataStore,
        member: Member,
        registration: BrokerImage,
        clock: Clock,
        session_ms: int,
        look_every_ms: int,
        open_stream: OpenStream = open_tcp,
    ) -> None:
        self.session: Session
        self.lease = ControllerLease(clock.steady_ms)
        self._store = store
        self._member = member
        self._registration = registration
        self._session_ms = session_ms
        self._look_every_s = look_every_ms / 1000
        self._changed = trio.Event()
        self._is_leaving = False
        self._duties = ControllerDuties(store, clock, session_ms)
        self._failure_detector = FailureDetector(store, open_stream, self._wake_task)

    async def join(
        self, image: MetadataImage, held: Held, lacks: Lacks, prepare: Prepare
    ) -> MetadataImage:
        """Begin a session and register; returns the image in which this broker may lead.

        ``image`` was read just before. ``held`` tells which replicas the disks have. ``lacks``
        tells whether replicas may lack records. ``prepare`` creates the missing logs of new
        partitions before this broker leads them. Raises NodeIdTaken if another process has the node
        id, and KafkaError.
        """
        before = image.brokers.get(self._member.node_id)
        while True:
            self.session = await self._begin_session(before)
            before = None  # it may be this process's own registration from now on
            try:
                image = await self._decide(image, lambda one: self._register(one, held, lacks))
                await prepare(image)
                return await self._decide(image, self._unfence)
            except GuardFailed:
                log.warning("the session of this broker was over during its start: it begins anew")

    def _register(self, image: MetadataImage, held: Held, lacks: Lacks) -> list[Change]:
        before = image.brokers.get(self._member.node_id)
        return register(image, self._registration, held, is_unclean=lacks(before))

    async def _begin_session(self, before: BrokerImage | None) -> Session:
        """Begin a session; waits for the end of an old session whose process may just have died.

        ``before`` is the registration of that process, None where it is not to be named.
        """
        wait_s = self._session_ms / 1000 + 1
        deadline = trio.current_time() + wait_s
        has_told = False
        while True:
            try:
                return await self._store.begin_session(self._member, self._session_ms)
            except NodeIdTaken:
                if trio.current_time() >= deadline:
                    raise
                if not has_told:
                    self._tell_of_old_session(before, wait_s)
                    has_told = True
                await trio.sleep(self._look_every_s / 4)

    def _tell_of_old_session(self, before: BrokerImage | None, wait_s: float) -> None:
        address = None if before is None else inter_broker_address(before, None)
        log.info(
            "node.id %d still has a session, of a broker%s that may have ended just now: this "
            "broker waits for the end of that session, %.0f s at most",
            self._member.node_id,
            f" at {address[0]}:{address[1]}" if address else "",
            wait_s,
        )

    def _unfence(self, image: MetadataImage) -> list[Change]:
        return unfence(image, self._member.node_id, self._member.incarnation)

    async def _decide(
        self, image: MetadataImage, decide: Callable[[MetadataImage], Sequence[Change]]
    ) -> MetadataImage:
        """Commit a decision before the broker follows the store; returns the image after that."""
        return await commit_decision(self._store, image, decide, self.session.guard)

    async def run(self, broker: Broker) -> None:
        """Stay a member, forever; NodeIdTaken if another process has taken the node id."""
        broker.commit_under(self.session.guard)
        self.lease.watch_session(self.session)
        self._failure_detector.on_heard = partial(self._heard, broker)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.lease.run)
            nursery.start_soon(self._watch_sessions)
            nursery.start_soon(self._failure_detector.run)
            while not self._is_leaving:
                changed = self._changed
                look_again_s = self._look_every_s
                try:
                    look_again_s = await self._do_due_steps(broker)
                except (KafkaError, GuardFailed) as error:
                    log.warning("membership in the cluster: %s", error)
                with trio.move_on_after(look_again_s):
                    await changed.wait()

    async def leave(self, broker: Broker) -> None:
        """Hand over the partitions that this broker leads, and end its session."""
        self._is_leaving = True
        with trio.move_on_after(LEAVE_S) as leaving:
            node_id, incarnation, _ = self._member
            try:
                await broker.commit(apart(broker, shut_down, node_id, incarnation))
            except KafkaError as error:
                log.warning("this broker leaves without telling the others: %s", error)
            self.lease.expect_end()
            await self.session.close()
        if leaving.cancelled_caught:
            log.warning(
                "the metadata store has not answered for %g s: this broker leaves without it, and "
                "the others learn of that when its session ends",
                LEAVE_S,
            )

    async def _watch_sessions(self) -> None:
        async with aclosing(self._store.sessions()) as found:
            async for _ in found:
                self._wake_task()

    def _wake_task(self) -> None:
        """Wake the task that looks at the sessions."""
        self._changed.set()
        self._changed = trio.Event()

    async def _do_due_steps(self, broker: Broker) -> float:
        """Do all steps whose time has come; returns the seconds after which to look again."""
        async with aclosing(self._store.sessions()) as found:
            sessions = await anext(found, None)
        node_id, incarnation, _ = self._member
        if self._is_leaving or sessions is None:  # None: the store has ended
            return self._look_every_s
        own = sessions.members.get(node_id)
        if self.session.is_over or own is None or own[1] != self.session.guard:
            if own is not None and own[0].incarnation != incarnation:
                raise NodeIdTaken(f"another process has taken node.id {node_id}")
            await self._join_again(broker)
            return 0
        registered = broker.image.brokers.get(node_id)
        is_behind = not self.lease.watches(self.session)  # the last registration has failed
        if registered is None or registered.is_fenced or is_behind:
            await self._register_again(broker)
        await self._give_up_failed(broker)
        if self._may_control(sessions) and await self._duties.start_term(broker, self.session):
            return 0
        self._watch_others(broker, sessions)
        wait_ms = await self._duties.perform(broker, sessions, self._failure_detector.dead)
        look_every_s = SOON_S if _are_registering(broker.image, sessions) else self._look_every_s
        return max(min(wait_ms / 1000, look_every_s), 0)

    def _may_control(self, sessions: Sessions) -> bool:
        """Whether no broker is the controller, or this one and no broker has been told so."""
        holder = sessions.controller
        if holder is None:
            return True
        return holder[0] == self._member.node_id and not self._duties.is_held(sessions)

    async def _give_up_failed(self, broker: Broker) -> None:
        """Hand over replicas whose logs can't be used any more."""
        failed = set(broker.offline_partitions())
        if broker.log_manager.failures:
            failed.update((one.topic, one.index) for one in broker.hosted() if one.is_offline)
        if not any(self._counts_as_replica(broker.image.partition(*key)) for key in failed):
            return

        def is_lost(topic: TopicImage, index: int) -> bool:
            return (topic.name, index) in failed

        node_id = self._member.node_id
        await broker.commit(apart(broker, without_replicas, node_id, is_lost))

    def _counts_as_replica(self, row: PartitionImage | None) -> bool:
        """Whether this broker's replica and at least one other replica may lead."""
        if row is None:
            return False
        eligible = {*row.isr, *row.elr}
        return self._member.node_id in eligible and len(eligible) > 1

    def _watch_others(self, broker: Broker, sessions: Sessions) -> None:
        """Watch all other brokers, and prove the deaths that this broker has to prove."""
        holder = None if sessions.controller is None else sessions.controller[0]
        controls = self._duties.is_held(sessions)
        watched = self._watched(broker, sessions)
        if not controls and len(watched) > MOST_WATCHED:
            watched = {node: one for node, one in watched.items() if node == holder}
        provable = [node for node in watched if controls or node == holder]
        self._failure_detector.watch(watched, provable)
        if broker.suspects is not None:
            broker.suspects.record_connected(self._failure_detector.connected, broker.image)

    def _heard(self, broker: Broker, node_id: int, is_there: bool) -> None:
        """Note that a connection to another broker has ended, or is open."""
        if broker.suspects is None:
            return
        if is_there:
            broker.suspects.record_connected([node_id], broker.image)
            broker.suspects.has_answered(node_id)
        else:
            broker.suspects.connection_lost(node_id, broker.image)

    def _watched(self, broker: Broker, sessions: Sessions) -> dict[int, Watched]:
        """The processes of the other brokers."""
        found = {}
        for node_id, registered in broker.image.brokers.items():
            name = broker.config.inter_broker_name
            address = inter_broker_address(registered, name)
            if node_id == self._member.node_id or address is None:
                continue
            member, guard = sessions.members.get(node_id, (None, None))
            if member is None and registered.is_fenced:
                continue
            if member is None or member.incarnation == registered.incarnation:
                found[node_id] = Watched(node_id, registered.incarnation, address, guard)
        return found

    async def _join_again(self, broker: Broker) -> None:
        log.warning("the session of this broker is over: it registers again")
        self._duties.give_up()
        self.session = await self._begin_session(None)
        broker.commit_under(self.session.guard)
        await self._register_again(broker)

    async def _register_again(self, broker: Broker) -> None:
        await broker.commit(apart(broker, register, self._registration))
        node_id, incarnation, _ = self._member
        await broker.commit(apart(broker, unfence, node_id, incarnation))
        self.lease.watch_session(self.session)


def _are_registering(image: MetadataImage, sessions: Sessions) -> bool:
    """Whether a process has begun its session but isn't registered yet."""
    return any(
        node_id not in image.brokers or image.brokers[node_id].incarnation != member.incarnation
        for node_id, (member, _) in sessions.members.items()
    )
