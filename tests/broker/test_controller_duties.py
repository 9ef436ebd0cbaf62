"""The controller fences, balances and elects when it is time, and only while it is controller."""

from threading import Event
from types import SimpleNamespace

import pytest
import trio
import trio.testing

from kwire.broker.controller_duties import ControllerDuties
from kwire.budget.threads import COMPUTING, Threads
from kwire.clock import Clock
from kwire.metadata.changes import (
    BrokerChanged,
    BrokerRegistered,
    ConfigChanged,
    TopicCreated,
    apply,
)
from kwire.metadata.image import (
    BrokerImage,
    ConfigResourceType,
    MetadataImage,
    PartitionImage,
    TopicImage,
)
from kwire.metadata.liveness import RETURN_MS
from kwire.metadata.store import Guard, Member, Sessions

WATCHDOG_S = 20
HOUR_MS = 3_600_000
GUARD = Guard("controller", 7)
SETTINGS = {
    "leader.imbalance.check.interval.seconds": 300,
    "unclean.leader.election.interval.ms": 60_000,
    "auto.leader.rebalance.enable": True,
    "kwire.workers": 1,
}


class Cluster:
    """Brokers 1 and 2, of which 1 may become the controller; the time is ``now_ms``."""

    def __init__(self, *partitions):
        self.now_ms = self.date_ms = 0
        self.settings = dict(SETTINGS)
        self.sessions = Sessions(
            {node: (Member(node, "a"), Guard("live", node)) for node in (1, 2)}, (1, GUARD)
        )
        self.node_id = 1
        self.threads = SimpleNamespace(deciding=SimpleNamespace(run=self._run))
        self.upkeep_done = 0
        brokers = [BrokerRegistered(BrokerImage(node, None, (), "a", node)) for node in (1, 2)]
        topic = TopicCreated(TopicImage("t", bytes(16), partitions, len(partitions)))
        self.image = apply(MetadataImage(), [*brokers, topic], 1)
        self.duties = ControllerDuties(self, Clock(lambda: self.date_ms, lambda: self.now_ms), 6000)

    async def hold_controller(self, session):
        return session

    async def upkeep(self, image, guard):
        assert guard == GUARD
        self.upkeep_done += 1

    def integer(self, name):
        return self.settings[name]

    setting = integer

    async def _run(self, do, *arguments):
        return do(*arguments)

    async def commit(self, decide, guard):
        assert guard == GUARD
        found = decide(self.image)
        changes = found if isinstance(found, list) else await found
        self.image = apply(self.image, changes, self.image.revision + 1)

    async def perform(self, now_ms):
        self.now_ms = now_ms
        return await self.duties.perform(self, self.sessions, ())

    @property
    def leaders(self):
        return [one.leader for one in self.image.topics_by_name["t"].partitions]


ASTRAY = PartitionImage(2, 0, (1, 2), (1, 2))


@pytest.fixture
async def cluster():
    """Broker 2 leads a partition that prefers broker 1."""
    cluster = Cluster(ASTRAY)
    assert await cluster.duties.start_term(cluster, GUARD)
    assert cluster.image.controller_id == 1
    return cluster


async def test_who_comes_late_is_not_the_controller():
    """Another broker holds it: there is nothing to commit."""
    cluster = Cluster(ASTRAY)
    cluster.hold_controller = lambda session: _nobody()
    before = cluster.image
    assert not await cluster.duties.start_term(cluster, GUARD)
    assert cluster.image is before


async def _nobody():
    return None


async def test_preferred_leaders_are_elected_at_intervals(cluster):
    """And it says when to look again."""
    assert await cluster.perform(10_000) == 50_000
    assert cluster.leaders == [2]
    await cluster.perform(300_000)
    assert cluster.leaders == [1]


@pytest.mark.parametrize("step_ms", [-HOUR_MS, 7 * 24 * HOUR_MS], ids=["back", "ahead"])
async def test_a_new_date_makes_no_election_early_or_late(cluster, step_ms):
    """The intervals go by the steady clock."""
    cluster.date_ms += step_ms
    await cluster.perform(299_999)
    assert cluster.leaders == [2]
    await cluster.perform(300_000)
    assert cluster.leaders == [1]


async def test_after_a_suspend_the_next_look_elects_at_once(cluster):
    """A suspend counts, and only one election makes up for all that were missed."""
    assert await cluster.perform(7 * 24 * HOUR_MS) == 60_000
    assert cluster.leaders == [1]


async def test_leaders_stay_where_they_are_if_so_configured(cluster):
    cluster.settings["auto.leader.rebalance.enable"] = False
    await cluster.perform(300_000)
    assert cluster.leaders == [2]


async def test_the_silent_are_fenced_and_others_lead(cluster, caplog):
    del cluster.sessions.members[2]
    await cluster.perform(6000)
    assert cluster.leaders == [1]
    assert cluster.image.brokers[2].is_fenced
    assert [one.levelname for one in caplog.records if "[2]" in one.getMessage()] == ["WARNING"]


async def test_fencing_waits_for_no_assignment_of_a_large_group(cluster):
    """A client decides how long an assignment takes: its thread is of another kind."""
    cluster.threads, may_end = Threads(), Event()
    del cluster.sessions.members[2]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(cluster.threads.computing.run, may_end.wait)
        try:
            with trio.fail_after(WATCHDOG_S):
                await trio.testing.wait_all_tasks_blocked()
                assert cluster.threads.computing.running == COMPUTING
                await cluster.perform(6000)
        finally:
            may_end.set()
    assert cluster.leaders == [1]


async def test_a_worker_that_comes_back_at_once_isnt_fenced(cluster):
    """Unless others have replicas of what it has: they needn't wait."""
    cluster.settings["kwire.workers"] = 2
    del cluster.sessions.members[2]
    alone = ASTRAY._replace(replicas=(2,), isr=(2,))
    topic = cluster.image.topics_by_name["t"]._replace(partitions=(alone,))
    shared, cluster.image = cluster.image, apply(cluster.image, [TopicCreated(topic)], 9)
    assert await cluster.perform(6000) == RETURN_MS
    assert not cluster.image.brokers[2].is_fenced
    cluster.image = shared
    await cluster.perform(6001)
    assert cluster.image.brokers[2].is_fenced


async def test_a_broker_that_has_stopped_is_fenced_without_a_warning(cluster, caplog):
    """It has handed over what it led: a restart of brokers in turn warns nobody."""
    caplog.set_level("INFO")
    del cluster.sessions.members[2]
    stopping = [BrokerChanged(2, False, True)]
    cluster.image = apply(cluster.image, stopping, cluster.image.revision + 1)
    await cluster.perform(6000)
    assert cluster.image.brokers[2].is_fenced
    assert [one.levelname for one in caplog.records if "[2]" in one.getMessage()] == ["INFO"]


async def test_a_partition_without_a_leader_is_looked_at_again(cluster):
    """Its topic may allow an unclean election by now."""
    gone = ASTRAY._replace(leader=-1, isr=(), replicas=(2, 1), last_known_elr=(9,))
    topic = cluster.image.topics_by_name["t"]._replace(partitions=(gone,))
    name = "unclean.leader.election.enable"
    config = ConfigChanged(ConfigResourceType.TOPIC, "t", name, "true")
    fenced = BrokerChanged(2, True, False)
    cluster.image = apply(cluster.image, [TopicCreated(topic), config, fenced], 9)
    await cluster.perform(59_999)
    assert cluster.leaders == [-1]
    await cluster.perform(60_000)
    assert cluster.leaders == [1]


async def test_who_is_no_longer_the_controller_does_nothing(cluster):
    cluster.sessions = cluster.sessions._replace(controller=(2, Guard("controller", 8)))
    assert await cluster.perform(300_000) == float("inf")
    assert cluster.leaders == [2]
    assert cluster.upkeep_done == 0
    assert not cluster.duties.is_held(cluster.sessions)
