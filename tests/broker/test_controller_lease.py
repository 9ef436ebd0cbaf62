"""A broker that can't know whether another one leads acknowledges only what can't be lost."""

from pathlib import Path
from random import Random

import pytest
import trio

from kwire.broker.controller_lease import ControllerLease
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import ConfigChanged
from kwire.metadata.image import ConfigResourceType
from kwire.metadata.store import Member
from kwire.record.batch import RecordBatch
from kwire.testing.simulated_etcd import SimulatedEtcd, simulated_store
from tests.broker.leading import ROW, NotedProduce, append, batch, follow
from tests.broker.replica.test_alter_partition_manager import Cluster

TTL_MS = 10_000
MOVED = ErrorCode.NOT_LEADER_OR_FOLLOWER


class Kept:
    """A session that the store kept at some time."""

    def __init__(self, kept_ms: float = 0, ttl_ms: int = TTL_MS) -> None:
        self.kept_ms = kept_ms
        self.ttl_ms = ttl_ms
        self.is_over = False


class Clock:
    """A steady clock."""

    def __init__(self) -> None:
        self.now_ms = 0

    def __call__(self) -> int:
        """The time."""
        return self.now_ms


@pytest.fixture
def clock() -> Clock:
    """At 0."""
    return Clock()


@pytest.fixture
def lease(clock: Clock) -> ControllerLease:
    """Of a broker without a session so far."""
    return ControllerLease(clock)


def test_the_deadline_is_a_tenth_before_the_session_ends(clock, lease):
    """Counted from the time before the last keepalive was sent; whoever asks is told once."""
    told = []
    lease.on_change = told.append
    session = Kept()
    lease.watch_session(session)
    for now_ms, is_out in ((8999, False), (9000, True), (20_000, True)):
        clock.now_ms = now_ms
        lease.check_deadline()
        assert lease.is_cut_off == is_out
    session.kept_ms = 19_000
    lease.check_deadline()
    assert not lease.is_cut_off
    assert told == [True, False]


def test_a_broker_that_stops_says_nothing_of_its_own_end(lease, caplog):
    """It acknowledges no more than one that is cut off, but the store does answer."""
    session = Kept()
    lease.watch_session(session)
    lease.expect_end()
    session.is_over = True
    lease.check_deadline()
    assert lease.is_cut_off
    assert caplog.messages == []


def test_a_worker_says_nothing_of_the_end_of_its_supervisor(lease, caplog):
    """Its store has said so; no other worker leads in its place."""
    caplog.set_level("INFO")
    session = Kept(float("inf"))
    lease.watch_session(session)
    session.is_over = True
    lease.check_deadline()
    assert lease.is_cut_off
    lease.watch_session(Kept(float("inf")))
    assert not lease.is_cut_off
    assert caplog.messages == []


def test_a_session_that_is_over_ends_it_at_once(lease):
    """Until the broker has registered with a new one."""
    session = Kept()
    lease.watch_session(session)
    session.is_over = True
    lease.check_deadline()
    assert lease.is_cut_off
    lease.watch_session(Kept())
    assert not lease.is_cut_off


def test_no_session_and_one_without_an_end_are_never_out(clock, lease):
    """A broker that is alone has none; a supervisor's workers end with their connection."""
    clock.now_ms = 1 << 60
    lease.check_deadline()
    assert not lease.is_cut_off
    lease.watch_session(Kept(float("inf")))
    assert not lease.is_cut_off


async def pass_s(seconds: float) -> None:
    """Let virtual time pass."""
    with trio.move_on_after(seconds):
        await trio.sleep_forever()


async def test_an_outage_of_etcd_and_its_end(autojump_clock):
    """Also a broker that has nothing to serve notices both."""

    def steady_ms() -> int:
        return int(trio.current_time() * 1000)

    async with trio.open_nursery() as nursery:
        etcd = SimulatedEtcd(Random(1))
        store = simulated_store(etcd.gateway(), "1:a", Random(1))
        lease = ControllerLease(steady_ms)
        nursery.start_soon(etcd.run)
        nursery.start_soon(store.run)
        lease.watch_session(await store.begin_session(Member(1, "a"), TTL_MS))
        nursery.start_soon(lease.run)
        await pass_s(30)
        assert not lease.is_cut_off
        etcd.faults.is_down = True
        await pass_s(TTL_MS / 1000 * 0.5)
        assert not lease.is_cut_off
        await pass_s(TTL_MS / 1000 * 0.45)
        assert lease.is_cut_off
        etcd.faults.is_down = False
        await pass_s(5)
        assert not lease.is_cut_off
        nursery.cancel_scope.cancel()


@pytest.fixture
def cluster(tmp_path: Path) -> Cluster:
    """A leader of two partitions: all replicas of one are in sync, only its own of the other."""
    made = Cluster(tmp_path, [ROW, ROW._replace(isr=(1,))])
    for partition in made.led:
        append(partition)  # the first batch of a log takes the slow path
    return made


def refused(partition, acks) -> bool:
    """Whether both paths refuse an append, or both take it."""
    plain = partition.append_plain(RecordBatch(batch()), acks)
    if plain == -1:
        with pytest.raises(KafkaError) as found:
            append(partition, acks=acks)
        assert found.value.code is MOVED
        return True
    append(partition, acks=acks)
    return False


@pytest.mark.parametrize("acks", [-1, 0, 1])
def test_what_is_refused_while_cut_off(cluster, acks):
    """All but acks=all where a follower has to have the batch; nothing before and afterwards."""
    shared, alone = cluster.led
    for is_out in (False, True, False):
        cluster.updates.cut_off(is_out)
        assert refused(shared, acks) == (is_out and acks != -1)
        assert refused(alone, acks) == is_out


def test_the_high_watermark_goes_on(cluster):
    """Whoever leads after this broker is one of those it waits for, and fetches no more."""
    shared, _ = cluster.led
    cluster.updates.cut_off(True)
    acks = NotedProduce()
    shared.wait_for(append(shared), acks, 0)
    for node in (2, 3):
        follow(shared, node)
    assert acks.told == [(0, None)]


@pytest.mark.parametrize("topic", ["t", ""])
def test_unclean_elections_end_all_appends(cluster, topic):
    """A replica out of sync may lead then; requests that wait aren't acknowledged either."""
    shared, _ = cluster.led
    kind = ConfigResourceType.TOPIC if topic else ConfigResourceType.BROKER
    cluster.take([ConfigChanged(kind, topic, "unclean.leader.election.enable", "true")])
    acks = NotedProduce()
    shared.wait_for(append(shared), acks, 0)
    cluster.updates.cut_off(True)
    assert acks.told == [(0, MOVED)]
    assert refused(shared, -1)


def test_a_proposal_counts_as_in_sync(cluster):
    """The one in sync may have become two: the high watermark waits for both."""
    _, alone = cluster.led
    follow(alone, 2)
    assert alone.propose(1) == (1, 2)
    cluster.updates.cut_off(True)
    assert not refused(alone, -1)
