"""Share partitions whose state is kept by another broker: writes that take a while, or fail."""

import pytest
import trio

from kwire.broker.share_partitions import SharePartitions
from kwire.errors import ErrorCode, KafkaError
from kwire.share.key import SharePartitionKey
from kwire.share.partition import AckBatch, Acknowledge, Acquired, FetchedBatch
from kwire.share.sessions import Client
from kwire.testing.waiting import until
from tests.support.in_process import running_server
from tests.support.share_member import begin_group

GROUP, TOPIC = "workers", "orders"
SETTINGS = {"share.coordinator.state.topic.num.partitions": "1"}
ACCEPTED = [Acknowledge.ACCEPT]


class Elsewhere:
    """A broker that finds every coordinator on another broker, and its persister at once."""

    def __init__(self, broker) -> None:
        self.broker = broker
        self.persister = self.share_states = self.lookup = self
        self.is_asked, self.goes_on = trio.Event(), trio.Event()
        self.error: KafkaError | None = None
        self.starts: list[int] = []

    def __getattr__(self, name):
        return getattr(self.broker, name)

    def leader_for(self, key):
        """Another broker."""
        return self.broker.node_id + 1

    async def read(self, key, leader_epoch):
        """The state."""
        return await self.broker.persister.read(key, leader_epoch)

    async def write(self, key, wanted):
        """Write when the test says so."""
        self.is_asked.set()
        await self.goes_on.wait()
        if self.error is not None:
            raise self.error
        self.starts.append(wanted.start_offset)


@pytest.fixture
async def elsewhere(tmp_path):
    """A broker whose share coordinators are elsewhere; it has a topic and a group."""
    async with running_server(tmp_path, SETTINGS) as running:
        await running.topic(TOPIC)
        await begin_group(running, GROUP, TOPIC)
        yield Elsewhere(running.broker)


@pytest.fixture
async def manager(elsewhere):
    """Its share partitions; members of the group have sessions."""
    made = SharePartitions(elsewhere)
    for member in ("a", "b"):
        made.sessions.begin(GROUP, member, made.limits(), Client(1, "User:a", lambda: False))
    return made


@pytest.fixture
async def served(elsewhere, manager):
    """A share partition of which both members have a record."""
    topic_id = elsewhere.image.topics_by_name[TOPIC].topic_id
    key = SharePartitionKey(GROUP, topic_id, 0)
    await manager.load(key)
    found = manager.served(key)
    for offset, member in enumerate(("a", "b")):
        found.share.acquire(member, offset, [FetchedBatch(offset, offset)], 1, manager.now_ms())
    return found


def accept(manager, served, member: str, offset: int):
    """A member's acknowledgement of a record."""
    told = served.share.acknowledge(member, [AckBatch(offset, offset, ACCEPTED)], 0)
    manager.write(served)
    return told


async def test_records_are_acquired_and_locks_end_while_a_write_is_on_its_way(
    elsewhere, manager, served
):
    told = accept(manager, served, "a", 0)
    await elsewhere.is_asked.wait()
    assert served.share.acquire("b", 2, [FetchedBatch(2, 2)], 1, 0) == [Acquired(2, 2, 1)]
    served.share.expire(1 << 40)
    assert (served.share.start_offset, served.share.next_fetch_offset) == (0, 1)
    elsewhere.goes_on.set()
    await until(lambda: not served.is_writing)
    assert told.is_done
    assert told.error is None
    assert served.share.start_offset == elsewhere.starts[0] == 1


async def test_a_failed_write_tells_also_who_waits_for_the_next_one(elsewhere, manager, served):
    elsewhere.error = KafkaError(ErrorCode.FENCED_STATE_EPOCH)
    first = accept(manager, served, "a", 0)
    await elsewhere.is_asked.wait()
    second = accept(manager, served, "b", 1)
    elsewhere.goes_on.set()
    await until(lambda: not served.is_writing)
    codes = [one.error.code for one in (first, second) if one.is_done]
    assert codes == [ErrorCode.NOT_LEADER_OR_FOLLOWER] * 2
    assert not manager.loaded()


async def test_a_share_partition_stays_until_its_last_write_has_ended(elsewhere, manager, served):
    accept(manager, served, "a", 0)
    await elsewhere.is_asked.wait()
    for member in ("a", "b"):
        manager.end(manager.sessions.remove(GROUP, member))
    assert manager.loaded() == [served]
    elsewhere.goes_on.set()
    await until(lambda: not manager.loaded())
    assert elsewhere.starts[-1] == 1


async def test_a_late_release_leaves_a_new_session_alone(manager, served):
    """A member begins anew while the partitions of its earlier session are still released."""
    limits, topic_id = manager.limits(), served.share.key.topic_id
    earlier = manager.sessions.begin(GROUP, "a", limits, Client(1, "User:a", lambda: True))
    manager.sessions.add(earlier, [(topic_id, 0)], limits)
    pieces = manager.tick()
    next(pieces)
    manager.sessions.begin(GROUP, "a", limits, Client(2, "User:a", lambda: False))
    list(pieces)
    assert [(run.first, run.member) for run in served.share.runs] == [(0, "a"), (1, "b")]


async def test_a_write_that_failed_is_tried_again_though_nothing_else_happens(
    elsewhere, manager, served
):
    """Also when no member is left."""
    elsewhere.error = KafkaError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    accept(manager, served, "a", 0)
    for member in ("a", "b"):
        manager.end(manager.sessions.remove(GROUP, member))
    elsewhere.goes_on.set()
    await until(lambda: not served.is_writing)
    assert not elsewhere.starts
    assert manager.loaded() == [served]
    elsewhere.error = None
    elsewhere.background.start_soon(manager.run)
    await until(lambda: not manager.loaded())
    assert elsewhere.starts == [0]
