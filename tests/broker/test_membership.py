"""How a broker becomes a member of a cluster, on a simulated etcd, in virtual time."""

from random import Random

import trio

from kwire.broker.membership import Membership
from kwire.clock import Clock
from kwire.metadata.changes import ClusterNamed
from kwire.metadata.features import initial_features, own_features
from kwire.metadata.image import BrokerImage, MetadataImage
from kwire.metadata.store import Member
from kwire.testing.simulated_etcd import SimulatedEtcd, simulated_store


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
        image = await membership.join(lambda *_: None, lambda before: False, prepare)
        assert image.is_active(1)
        assert len(set(sessions)) == 2
        assert await store.commit(image.revision, [ClusterNamed("c")], membership.session.guard)
        nursery.cancel_scope.cancel()
