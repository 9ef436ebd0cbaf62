"""How a broker becomes a member of a cluster, on a simulated etcd, in virtual time."""

import logging
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from random import Random
from types import SimpleNamespace
from typing import TypeVar

import pytest
import trio
import trio.testing

from kwire.broker.commits import Commits
from kwire.broker.failure_detector import PAUSE_S, STEADY_S, SuspectedBrokers
from kwire.broker.membership import Membership
from kwire.broker.proposals import Decide
from kwire.clock import Clock
from kwire.config.broker import BrokerConfig
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import BrokerChanged, BrokerRegistered, ClusterNamed
from kwire.metadata.etcd.etcd_store import EtcdStore
from kwire.metadata.features import initial_features, own_features
from kwire.metadata.image import BrokerImage, MetadataImage
from kwire.metadata.store import Guard, Member
from kwire.testing.simulated_etcd import SimulatedEtcd, simulated_store

T = TypeVar("T")


async def pass_s(seconds: float) -> None:
    """Let virtual time pass."""
    with trio.move_on_after(seconds):
        await trio.sleep_forever()


async def test_a_session_that_ends_during_the_start_is_begun_anew(autojump_clock):
    """Its lease runs out, or somebody takes the process for dead, before the broker is unfenced."""
    etcd = SimulatedEtcd(Random(1))
    store = simulated_store(etcd.gateway(), "1:a", Random(1))
    endpoint = ("PLAINTEXT", "127.0.0.1", 9092)
    broker = BrokerImage(1, None, (endpoint,), "a", features=own_features())
    membership = Membership(store, Member(1, "a"), broker, Clock(), 6000, 1000)
    sessions = []

    async def prepare(image: MetadataImage) -> None:
        assert image.brokers[1].is_fenced
        sessions.append(membership.session.guard)
        if len(sessions) == 1:
            etcd.revoke_all()

    async with trio.open_nursery() as nursery:
        nursery.start_soon(etcd.run)
        nursery.start_soon(store.run)
        await store.commit(0, [ClusterNamed("c"), *initial_features()])
        image = await membership.join(
            await store.read(), lambda *_: None, lambda before: False, prepare
        )
        assert image.is_active(1)
        assert len(set(sessions)) == 2
        assert await store.commit(image.revision, [ClusterNamed("c")], membership.session.guard)
        nursery.cancel_scope.cancel()


async def test_a_start_says_that_it_waits_for_the_end_of_an_old_session(autojump_clock, caplog):
    """At once, and once: without the line nobody knows why the broker doesn't serve yet."""
    caplog.set_level(logging.INFO, "kwire.broker.membership")
    etcd = SimulatedEtcd(Random(1))
    old = simulated_store(etcd.gateway(), "1:a", Random(1))
    store = simulated_store(etcd.gateway(), "1:b", Random(1))
    endpoint = ("PLAINTEXT", "kafka-1", 9092)
    broker = BrokerImage(1, None, (endpoint,), "b", features=own_features())
    membership = Membership(store, Member(1, "b"), broker, Clock(), 6000, 1000)

    async def prepare(image: MetadataImage) -> None:
        pass

    async with trio.open_nursery() as nursery:
        nursery.start_soon(etcd.run)
        nursery.start_soon(store.run)
        before = BrokerRegistered(broker._replace(incarnation="a"))
        await store.commit(0, [ClusterNamed("c"), *initial_features(), before])
        await old.begin_session(Member(1, "a"), 6000)
        image = await store.read()
        await membership.join(image, lambda *_: None, lambda before: False, prepare)
        nursery.cancel_scope.cancel()
    [line] = caplog.messages
    assert line.startswith("node.id 1 still has a session, of a broker at kafka-1:9092 that may")
    assert line.endswith("waits for the end of that session, 7 s at most")


class Inline:
    """In place of threads, for which virtual time doesn't wait."""

    async def run(self, call: Callable[..., T], *arguments: object) -> T:
        """Call at once."""
        return call(*arguments)


class Serving:
    """A broker that serves, as its membership needs it; its first ``refusals`` commits fail."""

    node_id = 1
    log_manager = SimpleNamespace(failures=())
    suspects: SuspectedBrokers | None = None

    def __init__(self, store: EtcdStore, image: MetadataImage) -> None:
        self.config = BrokerConfig.load({})
        self.integer, self.setting = self.config.integer, lambda _name: False
        self.threads = SimpleNamespace(deciding=Inline())
        self.commits = Commits(store, image, self.threads.deciding, Random(1))
        self.commit_under = partial(setattr, self.commits, "guard")
        self.refusals = 0

    @property
    def image(self) -> MetadataImage:
        """The newest image."""
        return self.commits.image

    def offline_partitions(self) -> list[str]:
        """None."""
        return []

    async def commit(self, decide: Decide, guard: Guard | None = None) -> None:
        """Commit, unless that is refused."""
        if self.refusals:
            self.refusals -= 1
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, "the store is slow")
        await self.commits.commit(decide, guard=guard)

    async def follow(self, *_: object) -> None:
        """Do nothing with a new image."""


async def test_a_registration_that_the_store_did_not_take_is_repeated(autojump_clock):
    """The session was over, the new one is there: without a registration the broker stays cut off.

    It would refuse acks=1 for ever, and nobody would notice: the old registration isn't fenced.
    """
    etcd = SimulatedEtcd(Random(1))
    store = simulated_store(etcd.gateway(), "1:a", Random(1))
    endpoint = ("PLAINTEXT", "127.0.0.1", 9092)
    registration = BrokerImage(1, None, (endpoint,), "a", features=own_features())
    clock = SimpleNamespace(steady_ms=lambda: int(trio.current_time() * 1000))
    membership = Membership(store, Member(1, "a"), registration, clock, 6000, 1000)

    async def prepare(image: MetadataImage) -> None:
        pass

    async with trio.open_nursery() as nursery:
        nursery.start_soon(etcd.run)
        nursery.start_soon(store.run)
        await store.commit(0, [ClusterNamed("c"), *initial_features()])
        image = await membership.join(
            await store.read(), lambda *_: None, lambda before: False, prepare
        )
        broker = Serving(store, image)
        nursery.start_soon(broker.commits.make_commits)
        nursery.start_soon(broker.commits.follow_store, broker.follow)
        nursery.start_soon(membership.run, broker)
        await pass_s(3)
        first, epoch = membership.session, broker.image.brokers[1].epoch
        broker.refusals = 1
        etcd.revoke_all()
        await pass_s(5)
        assert membership.session is not first
        assert not broker.refusals
        assert not membership.lease.is_cut_off
        assert broker.image.is_active(1)
        assert broker.image.brokers[1].epoch > epoch
        nursery.cancel_scope.cancel()


async def test_a_controller_that_could_not_say_so_says_it_again(autojump_clock):
    """It holds the key: nobody else becomes the controller, and clients look for the last one."""
    etcd = SimulatedEtcd(Random(1))
    store = simulated_store(etcd.gateway(), "1:a", Random(1))
    endpoint = ("PLAINTEXT", "127.0.0.1", 9092)
    registration = BrokerImage(1, None, (endpoint,), "a", features=own_features())
    clock = SimpleNamespace(steady_ms=lambda: int(trio.current_time() * 1000))
    membership = Membership(store, Member(1, "a"), registration, clock, 6000, 1000)

    async def prepare(image: MetadataImage) -> None:
        pass

    async with trio.open_nursery() as nursery:
        nursery.start_soon(etcd.run)
        nursery.start_soon(store.run)
        await store.commit(0, [ClusterNamed("c"), *initial_features()])
        image = await membership.join(
            await store.read(), lambda *_: None, lambda before: False, prepare
        )
        broker = Serving(store, image)
        broker.refusals = 1
        nursery.start_soon(broker.commits.make_commits)
        nursery.start_soon(broker.commits.follow_store, broker.follow)
        nursery.start_soon(membership.run, broker)
        await pass_s(5)
        assert not broker.refusals
        assert (broker.image.controller_id, broker.image.controller_epoch) == (1, 1)
        nursery.cancel_scope.cancel()


class Others:
    """The processes of brokers 2 and 3, whose ports are their node ids, until one dies."""

    def __init__(self) -> None:
        self.connections: dict[int, trio.abc.Stream] = {}
        self.dead = 0

    async def open(self, host: str, port: int) -> trio.abc.Stream:
        """Connect."""
        await trio.lowlevel.checkpoint()
        if port == self.dead:
            raise ConnectionRefusedError(111, "nobody is there")
        ours, self.connections[port] = trio.testing.memory_stream_pair()
        return ours

    async def die(self, node_id: int) -> None:
        """Nobody listens any more."""
        self.dead = node_id
        await self.connections[node_id].aclose()


@pytest.mark.parametrize(
    ("controller", "dead", "left"), [(1, 3, {1, 2}), (2, 3, {1, 2, 3}), (2, 2, {1, 3})]
)
async def test_who_proves_a_death_and_who_only_suspects(autojump_clock, controller, dead, left):
    """The controller proves that of every broker, the others that of the controller alone."""
    etcd = SimulatedEtcd(Random(1))
    stores = {node: simulated_store(etcd.gateway(), f"{node}:a", Random(node)) for node in (1, 2)}
    brokers = {
        node: BrokerImage(node, None, (("PLAINTEXT", "b", node),), "a", features=own_features())
        for node in (1, 2, 3)
    }
    clock = SimpleNamespace(steady_ms=lambda: int(trio.current_time() * 1000))
    others, sessions = Others(), {}
    membership = Membership(stores[1], Member(1, "a"), brokers[1], clock, 6000, 1000, others.open)

    async def prepare(image: MetadataImage) -> None:
        pass

    async with trio.open_nursery() as nursery:
        nursery.start_soon(etcd.run)
        for store in stores.values():
            nursery.start_soon(store.run)
        registered = [BrokerRegistered(brokers[node]._replace(epoch=1)) for node in (2, 3)]
        unfenced = [BrokerChanged(node, False, False) for node in (2, 3)]
        first = [ClusterNamed("c"), *initial_features(), *registered, *unfenced]
        await stores[1].commit(0, first)
        for node in (2, 3):
            sessions[node] = await stores[2].begin_session(Member(node, "a"), 30_000)
        if controller == 2:
            assert await stores[2].hold_controller(sessions[2])
        image = await membership.join(
            await stores[1].read(), lambda *_: None, lambda before: False, prepare
        )
        broker = Serving(stores[1], image)
        broker.suspects = suspects = SuspectedBrokers()
        nursery.start_soon(broker.commits.make_commits)
        nursery.start_soon(broker.commits.follow_store, broker.follow)
        nursery.start_soon(membership.run, broker)
        await pass_s(2 + STEADY_S)
        assert set(others.connections) == {2, 3}
        assert suspects.wait_until_s(broker.image, -1.0) is None
        await others.die(dead)
        await trio.testing.wait_all_tasks_blocked()
        assert suspects.wait_until_s(broker.image, -1.0) is not None
        await pass_s(PAUSE_S)
        async with aclosing(stores[1].sessions()) as found:
            assert set((await anext(found)).members) == left
        nursery.cancel_scope.cancel()
