"""This broker as a member of a cluster: session, registration, and leaving it.

Rules:

- Start: begin a session, register fenced, say which replicas are lost, unfence. From then on
  ``run`` looks after it.
- A broker whose session is over begins a new one and registers again; so does one that was fenced
  by mistake.
- Whoever finds no controller tries to become it (``controller_duties``).
- Replicas in a directory that has failed are given up, if other replicas have all records.
- A broker that stops says so in the commit that hands over what it leads. It serves on until it has
  followed that commit, so that clients learn of the new leaders from it.
- A process that is proven dead (``proofs``) needs no end of its lease: its session is ended. The
  controller looks at all others in this way, and they look at the controller. Whoever isn't the
  controller only suspects the others (``suspects``).
- ``reach`` knows whether this broker may have been deposed without knowing it.
- What can't be reached now is tried again at the next look: after a change of sessions, and every
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
from kwire.broker.first_commits import commit_decision
from kwire.broker.peers import inter_broker_address
from kwire.broker.proofs import MOST_WATCHED, Proofs, Watched
from kwire.broker.reach import Reach
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
"""So long a broker that stops tries to tell the others."""

SOON_S = 0.05
"""A process with a session registers as soon; until then nobody watches it."""


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
        self.reach = Reach(clock.steady_ms)
        self._store = store
        self._member = member
        self._registration = registration
        self._session_ms = session_ms
        self._look_every_s = look_every_ms / 1000
        self._changed = trio.Event()
        self._is_leaving = False
        self._duties = ControllerDuties(store, clock, session_ms)
        self._proofs = Proofs(store, open_stream, self._tell)

    async def join(
        self, image: MetadataImage, held: Held, lacks: Lacks, prepare: Prepare
    ) -> MetadataImage:
        """Begin a session and register; the image in which this broker may lead.

        ``image`` is one that was read just now. ``held`` tells which replicas the disks have,
        ``lacks`` whether they may lack records, and ``prepare`` makes logs that are missing and may
        be empty, before this broker leads them. Raises NodeIdTaken if another process has the node
        id, and KafkaError.
        """
        while True:
            self.session = await self._begin_session()
            try:
                image = await self._decide(image, lambda one: self._register(one, held, lacks))
                await prepare(image)
                return await self._decide(image, self._unfence)
            except GuardFailed:
                log.warning("the session of this broker was over during its start: it begins anew")

    def _register(self, image: MetadataImage, held: Held, lacks: Lacks) -> list[Change]:
        before = image.brokers.get(self._member.node_id)
        return register(image, self._registration, held, is_unclean=lacks(before))

    async def _begin_session(self) -> Session:
        """A session; waits for an old one of a process that may just have died."""
        deadline = trio.current_time() + self._session_ms / 1000 + 1
        while True:
            try:
                return await self._store.begin_session(self._member, self._session_ms)
            except NodeIdTaken:
                if trio.current_time() >= deadline:
                    raise
                await trio.sleep(self._look_every_s / 4)

    def _unfence(self, image: MetadataImage) -> list[Change]:
        return unfence(image, self._member.node_id, self._member.incarnation)

    async def _decide(
        self, image: MetadataImage, decide: Callable[[MetadataImage], Sequence[Change]]
    ) -> MetadataImage:
        """Make a decision true before the broker follows the store; the image afterwards."""
        return await commit_decision(self._store, image, decide, self.session.guard)

    async def run(self, broker: Broker) -> None:
        """Stay a member, for ever; NodeIdTaken if another process has taken the node id."""
        broker.commit_under(self.session.guard)
        self.reach.begin(self.session)
        self._proofs.heard = partial(self._heard, broker)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.reach.run)
            nursery.start_soon(self._watch)
            nursery.start_soon(self._proofs.run)
            while not self._is_leaving:
                changed = self._changed
                look_again_s = self._look_every_s
                try:
                    look_again_s = await self._look(broker)
                except (KafkaError, GuardFailed) as error:
                    log.warning("membership in the cluster: %s", error)
                with trio.move_on_after(look_again_s):
                    await changed.wait()

    async def leave(self, broker: Broker) -> None:
        """Hand over what this broker leads, and end its session."""
        self._is_leaving = True
        with trio.move_on_after(LEAVE_S):
            node_id, incarnation, _ = self._member
            try:
                await broker.commit(apart(broker, shut_down, node_id, incarnation))
            except KafkaError as error:
                log.warning("this broker leaves without telling the others: %s", error)
            self.reach.leave()
            await self.session.close()

    async def _watch(self) -> None:
        async with aclosing(self._store.sessions()) as found:
            async for _ in found:
                self._tell()

    def _tell(self) -> None:
        """Have somebody look at the sessions again."""
        self._changed.set()
        self._changed = trio.Event()

    async def _look(self, broker: Broker) -> float:
        """Do what is to be done; the seconds after which to look again."""
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
        is_behind = not self.reach.looks_at(self.session)  # that registration has failed
        if registered is None or registered.is_fenced or is_behind:
            await self._register_again(broker)
        await self._give_up_failed(broker)
        if sessions.controller is None and await self._duties.begin(broker, self.session):
            return 0
        self._watch_others(broker, sessions)
        wait_ms = await self._duties.perform(broker, sessions, self._proofs.dead)
        look_every_s = SOON_S if _are_registering(broker.image, sessions) else self._look_every_s
        return max(min(wait_ms / 1000, look_every_s), 0)

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
        """Whether this broker's replica may lead, and another one, too."""
        if row is None:
            return False
        eligible = {*row.isr, *row.elr}
        return self._member.node_id in eligible and len(eligible) > 1

    def _watch_others(self, broker: Broker, sessions: Sessions) -> None:
        """Watch all others, and prove the deaths of those that only this broker can prove."""
        holder = None if sessions.controller is None else sessions.controller[0]
        controls = self._duties.is_held(sessions)
        watched = self._watched(broker, sessions)
        if not controls and len(watched) > MOST_WATCHED:
            watched = {node: one for node, one in watched.items() if node == holder}
        provable = [node for node in watched if controls or node == holder]
        self._proofs.watch(watched, provable)
        if broker.suspects is not None:
            broker.suspects.meet(self._proofs.connected, broker.image)

    def _heard(self, broker: Broker, node_id: int, is_there: bool) -> None:
        """A connection to another broker has ended, or is there."""
        if broker.suspects is None:
            return
        if is_there:
            broker.suspects.meet([node_id], broker.image)
            broker.suspects.answered(node_id)
        else:
            broker.suspects.lost(node_id, broker.image)

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
        self.session = await self._begin_session()
        broker.commit_under(self.session.guard)
        await self._register_again(broker)

    async def _register_again(self, broker: Broker) -> None:
        await broker.commit(apart(broker, register, self._registration))
        node_id, incarnation, _ = self._member
        await broker.commit(apart(broker, unfence, node_id, incarnation))
        self.reach.begin(self.session)


def _are_registering(image: MetadataImage, sessions: Sessions) -> bool:
    """Whether a process has begun its session, and isn't registered yet."""
    return any(
        node_id not in image.brokers or image.brokers[node_id].incarnation != member.incarnation
        for node_id, (member, _) in sessions.members.items()
    )
