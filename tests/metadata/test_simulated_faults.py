"""The etcd store through lost answers, dead watches, early and late leases, and outages.

The etcd is simulated, time is virtual, and chance comes from a seed. Each test says with which
scenario of the cluster's design it helps.
"""

import logging
import zlib
from contextlib import aclosing
from random import Random

import pytest
import trio

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import Change, ProducerIdsAllocated, TopicDeleted, apply
from kwire.metadata.etcd import images
from kwire.metadata.etcd.encoding import encode_commit
from kwire.metadata.etcd.transactions import put, transaction
from kwire.metadata.image import MetadataImage
from kwire.metadata.store import (
    Commit,
    GuardFailed,
    Member,
    OutcomeUnknown,
    RevisionConflict,
    RevisionGone,
    StoreUnusable,
)
from kwire.testing.simulated_etcd import SimulatedEtcd, simulated_store

TTL_MS = 6000
SEEDS = range(20)


class Cluster:
    """An etcd with faults, and brokers' stores on it."""

    def __init__(self, seed: int, nursery: trio.Nursery, brokers: int = 3) -> None:
        self.random = Random(seed)
        self.etcd = SimulatedEtcd(self.random)
        self.faults = self.etcd.faults
        self.gateways = [self.etcd.gateway() for _ in range(brokers)]
        self.stores = [
            simulated_store(gateway, f"{node}:a", self.random)
            for node, gateway in enumerate(self.gateways, 1)
        ]
        nursery.start_soon(self.etcd.run)
        for store in self.stores:
            nursery.start_soon(store.run)

    async def begin(self, node: int):
        """Begin the session of a broker."""
        return await self.stores[node - 1].begin_session(Member(node, f"{node}a"), TTL_MS)


def _ids(number: int) -> list[Change]:
    return [ProducerIdsAllocated(number)]


async def _pass_s(seconds: float) -> None:
    """Let virtual time pass."""
    with trio.move_on_after(seconds):
        await trio.sleep_forever()


async def _until(is_so) -> None:
    """Wait in virtual time until something is so."""
    while not is_so():
        await _pass_s(0.01)


class Counter:
    """A broker that takes numbers: each commit raises ``next_producer_id`` by one."""

    def __init__(self, store) -> None:
        self.store = store
        self.image = MetadataImage()
        self.seen: list[Commit] = []
        self.taken: list[int] = []
        self.unknown: list[int] = []

    async def follow(self) -> None:
        """Apply all commits; read the image where they are gone."""
        while True:
            try:
                async with aclosing(self.store.watch(self.image.revision)) as commits:
                    async for commit in commits:
                        assert commit.revision == self.image.revision + 1
                        self.seen.append(commit)
                        self.image = apply(self.image, commit.changes, commit.revision)
            except RevisionGone:
                self.image = await self.store.read()

    async def take(self, count: int) -> None:
        """Take this many numbers."""
        while len(self.taken) < count:
            image = self.image
            number = image.next_producer_id
            try:
                await self.store.commit(image.revision, _ids(number + 1))
            except RevisionConflict:
                pass
            except OutcomeUnknown:
                self.unknown.append(number)
            except KafkaError:
                await _pass_s(1)
                continue
            else:
                self.taken.append(number)
            with trio.move_on_after(30):
                await _until(lambda before=image: self.image.revision != before.revision)


@pytest.mark.parametrize("seed", SEEDS)
async def test_each_change_is_made_once_though_answers_are_lost(seed, monkeypatch, autojump_clock):
    """S6, S24: no number is taken twice, and none is lost but those of unknown outcome."""
    monkeypatch.setattr(images, "COMMITS_BEFORE_SNAPSHOT", 8)
    async with trio.open_nursery() as nursery:
        cluster = Cluster(seed, nursery)
        session = await cluster.begin(1)
        guard = await cluster.stores[0].hold_controller(session)
        cluster.faults.lost_answers = 0.2
        cluster.faults.lost_calls = 0.1
        cluster.faults.delay_s = 0.05
        counters = [Counter(store) for store in cluster.stores]
        for counter in counters:
            nursery.start_soon(counter.follow)
        async with trio.open_nursery() as takers:
            for counter in counters:
                takers.start_soon(counter.take, 10)
        cluster.faults.lost_answers = cluster.faults.lost_calls = 0.0
        await cluster.stores[0].upkeep(counters[0].image, guard)
        image = await cluster.stores[1].read()
        taken = sorted(number for counter in counters for number in counter.taken)
        unknown = {number for counter in counters for number in counter.unknown}
        assert len(set(taken)) == len(taken)
        assert set(range(image.next_producer_id)) - set(taken) <= unknown
        with trio.fail_after(60):
            await _until(lambda: all(c.image.revision == image.revision for c in counters))
        assert [counter.image for counter in counters] == [image] * 3
        nursery.cancel_scope.cancel()


async def test_a_dead_watch_is_found_within_a_keepalive(autojump_clock):
    """S9: a watch that stays silent delays commits and sessions by one interval, no more."""
    async with trio.open_nursery() as nursery:
        cluster = Cluster(1, nursery)
        await cluster.begin(2)
        counter = Counter(cluster.stores[1])
        nursery.start_soon(counter.follow)
        await _pass_s(1)
        cluster.gateways[1].silence()
        await cluster.stores[0].commit(0, _ids(1))
        began_s = trio.current_time()
        with trio.fail_after(1.1):
            await _until(lambda: counter.image.revision == 1)
        assert trio.current_time() > began_s
        await _pass_s(3)  # by then another watch has begun
        await cluster.stores[0].commit(1, _ids(2))
        with trio.fail_after(0.03):
            await _until(lambda: counter.image.revision == 2)
        nursery.cancel_scope.cancel()


async def test_an_outage_costs_no_session(autojump_clock):
    """S5: leases outlive it here; whatever needs a commit is told so, with the address."""
    async with trio.open_nursery() as nursery:
        cluster = Cluster(1, nursery)
        cluster.faults.lease_factor = 100
        sessions = [await cluster.begin(node) for node in (1, 2, 3)]
        cluster.faults.is_down = True
        with pytest.raises(KafkaError, match="simulated:2379") as refused:
            await cluster.stores[0].commit(0, _ids(1))
        assert refused.value.code is ErrorCode.REQUEST_TIMED_OUT
        await _pass_s(60)
        kept_ms = [session.kept_ms for session in sessions]
        assert all(trio.current_time() * 1000 - kept > 50_000 for kept in kept_ms)
        cluster.faults.is_down = False
        await _pass_s(3)
        assert all(session.kept_ms > kept for session, kept in zip(sessions, kept_ms, strict=True))
        assert not any(session.is_over for session in sessions)
        assert await cluster.stores[0].commit(0, _ids(1), sessions[0].guard) == 1
        nursery.cancel_scope.cancel()


async def test_a_commit_without_an_answer_may_be_done(autojump_clock):
    """S6: the next revision tells, and the error says that nothing is known."""
    async with trio.open_nursery() as nursery:
        cluster = Cluster(1, nursery)
        cluster.faults.lost_answers = 1.0
        with pytest.raises(OutcomeUnknown):
            await cluster.stores[0].commit(0, _ids(1))
        cluster.faults.lost_answers = 0.0
        assert (await cluster.stores[1].read()).next_producer_id == 1
        with pytest.raises(RevisionConflict):
            await cluster.stores[0].commit(0, _ids(1))
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("topics", [1, 20_000])
async def test_a_full_etcd_refuses_commits_of_any_size(topics, autojump_clock):
    """A large one fails at its first part, with the same error as a small one; none is written."""
    async with trio.open_nursery() as nursery:
        cluster = Cluster(1, nursery)
        changes = [TopicDeleted(cluster.random.randbytes(16)) for _ in range(topics)]
        assert bool(encode_commit("1:a:1", changes).parts) == (topics > 1)
        cluster.faults.is_full = True
        with pytest.raises(KafkaError, match=r"etcd can't write metadata: .* space") as refused:
            await cluster.stores[0].commit(0, changes)
        assert refused.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert not cluster.etcd.keys
        cluster.faults.is_full = False
        assert await cluster.stores[0].commit(0, _ids(1)) == 1
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("factor", [0.1, 0.5])
async def test_a_lease_that_ends_early_ends_the_session(factor, autojump_clock):
    """S8: the broker learns of it, its guard fails, and it may begin anew."""
    async with trio.open_nursery() as nursery:
        cluster = Cluster(1, nursery)
        session = await cluster.begin(1)
        await _pass_s(2)
        cluster.faults.lease_factor = factor
        cluster.etcd.revoke_all()
        with trio.fail_after(1.1):
            await _until(lambda: session.is_over)
        with pytest.raises(GuardFailed):
            await cluster.stores[0].commit(0, _ids(1), session.guard)
        again = await cluster.begin(1)
        assert await cluster.stores[0].commit(0, _ids(1), again.guard) == 1
        nursery.cancel_scope.cancel()


async def test_a_paused_controller_commits_nothing(autojump_clock):
    """S7: another one was elected while it slept; its commit fails its guard."""
    async with trio.open_nursery() as nursery:
        cluster = Cluster(1, nursery)
        first, second = [await cluster.begin(node) for node in (1, 2)]
        stale = await cluster.stores[0].hold_controller(first)
        cluster.gateways[0].is_cut = True
        await _pass_s(2 * TTL_MS / 1000)
        guard = await cluster.stores[1].hold_controller(second)
        assert guard is not None
        assert await cluster.stores[1].commit(0, _ids(1), guard) == 1
        assert first.kept_ms + TTL_MS < trio.current_time() * 1000
        cluster.gateways[0].is_cut = False
        with pytest.raises(GuardFailed):
            await cluster.stores[0].commit(1, _ids(2), stale)
        with pytest.raises(GuardFailed):
            await cluster.stores[0].upkeep(
                apply(MetadataImage(), _ids(1), images.COMMITS_BEFORE_SNAPSHOT), stale
            )
        with trio.fail_after(5):
            await _until(lambda: first.is_over)
        nursery.cancel_scope.cancel()


async def test_a_broker_that_was_frozen_twice_goes_on(autojump_clock):
    """Of the simulation itself: what was kept first is delivered as well."""
    async with trio.open_nursery() as nursery:
        cluster = Cluster(1, nursery)
        gateway = cluster.gateways[0]
        gateway.hold()
        nursery.start_soon(cluster.stores[0].commit, 0, _ids(1))
        await _pass_s(1)
        assert not cluster.etcd.keys
        gateway.hold()
        gateway.release()
        with trio.fail_after(1):
            await _until(lambda: cluster.etcd.keys)
        nursery.cancel_scope.cancel()


async def test_old_commits_and_what_they_left_are_deleted(monkeypatch, autojump_clock):
    """The newest commit stays, and the commits after the snapshot before the last one."""
    monkeypatch.setattr(images, "COMMITS_BEFORE_SNAPSHOT", 5)
    async with trio.open_nursery() as nursery:
        cluster = Cluster(1, nursery)
        store = cluster.stores[0]
        guard = await store.hold_controller(await cluster.begin(1))
        for revision in range(20):
            await store.commit(revision, _ids(revision))
            await store.upkeep(await store.read(), guard)
        logs = [key for key in cluster.etcd.keys if "/log/" in key]
        assert logs == [f"kwire/log/{revision:016x}" for revision in range(15, 21)]
        snapshots = [key for key in cluster.etcd.keys if "/snapshots/" in key]
        assert snapshots == [f"kwire/snapshots/{20:016x}/1:a/000000"]
        assert (await cluster.stores[2].read()).next_producer_id == 19
        nursery.cancel_scope.cancel()


async def test_a_controller_that_is_behind_writes_no_older_snapshot(monkeypatch, autojump_clock):
    """It was elected, and can't follow the store: commits after its snapshot would be deleted."""
    monkeypatch.setattr(images, "COMMITS_BEFORE_SNAPSHOT", 5)
    monkeypatch.setattr(images, "BYTES_BEFORE_SNAPSHOT", 0)
    async with trio.open_nursery() as nursery:
        cluster = Cluster(1, nursery)
        store = cluster.stores[0]
        guard = await store.hold_controller(await cluster.begin(1))
        behind = await store.read()
        for revision in range(6):
            await store.commit(revision, _ids(revision))
        await store.upkeep(await store.read(), guard)
        await store.upkeep(behind, guard)
        snapshots = [key for key in cluster.etcd.keys if "/snapshots/" in key]
        assert snapshots == [f"kwire/snapshots/{6:016x}/1:a/000000"]
        assert (await cluster.stores[2].read()).revision == 6
        nursery.cancel_scope.cancel()


async def test_a_log_that_lost_commits_is_not_followed(autojump_clock):
    """etcd was restored from a backup: the error says so."""
    async with trio.open_nursery() as nursery:
        cluster = Cluster(1, nursery)
        with pytest.raises(StoreUnusable, match="no longer has revision 7"):
            await anext(cluster.stores[0].watch(7))
        nursery.cancel_scope.cancel()


async def test_a_snapshot_of_a_newer_kwire_is_not_read(monkeypatch, autojump_clock):
    """It has a kind of change that this version doesn't know: the error says so in one line."""
    monkeypatch.setattr(images, "COMMITS_BEFORE_SNAPSHOT", 1)
    async with trio.open_nursery() as nursery:
        cluster = Cluster(1, nursery)
        store = cluster.stores[0]
        guard = await store.hold_controller(await cluster.begin(1))
        await store.commit(0, _ids(1))
        await store.upkeep(await store.read(), guard)
        [part] = [key for key in cluster.etcd.keys if "/snapshots/" in key]
        newer = put(part, zlib.compress(b'{"type": "Newer"}'))
        cluster.etcd.do("kv/txn", transaction((), (newer,)))
        with pytest.raises(StoreUnusable, match="unknown metadata change Newer"):
            await cluster.stores[1].read()
        nursery.cancel_scope.cancel()


async def test_a_lease_that_ends_before_it_has_a_key_is_replaced(autojump_clock):
    """The answer to its grant was long on the way: the session begins with a new lease."""
    async with trio.open_nursery() as nursery:
        cluster = Cluster(1, nursery)
        gateway, forward, paths = cluster.gateways[0], cluster.gateways[0].call, []

        async def late(path, body, within_s):
            answer = await forward(path, body, within_s)
            if path == "lease/grant":
                paths.append(path)
                await _pass_s(0 if len(paths) > 1 else TTL_MS / 1000 + 1)
            return answer

        gateway.call = late
        session = await cluster.begin(1)
        assert len(paths) == 2
        assert await cluster.stores[0].commit(0, _ids(1), session.guard) == 1
        nursery.cancel_scope.cancel()


async def test_a_call_of_a_start_is_repeated_for_longer_and_says_so(autojump_clock, caplog):
    """Its answers are those of one call: a commit that is repeated is made once."""
    caplog.set_level(logging.INFO)
    async with trio.open_nursery() as nursery:
        etcd = SimulatedEtcd(Random(1))
        store = simulated_store(etcd.gateway(), "1:a", Random(1), call_s=lambda: 15.0)
        nursery.start_soon(etcd.run)
        nursery.start_soon(store.run)
        etcd.faults.lost_answers = 1.0
        nursery.start_soon(_heal_after, etcd, 10)
        assert await store.commit(0, _ids(1)) == 1
        assert caplog.text.count("waiting up to 15 s for etcd: no answer from etcd") == 1
        etcd.faults.is_down = True
        with pytest.raises(KafkaError, match="no answer"):
            await store.read()
        nursery.cancel_scope.cancel()


async def _heal_after(etcd, seconds):
    await _pass_s(seconds)
    etcd.faults.lost_answers = 0.0
