"""How many fetch sessions there are, which of them make room, and what they keep."""

import gc
from random import Random

import pytest

from kwire.broker.fetch_sessions import EVICTION_MS, FetchSessions, SessionLimits
from kwire.broker.partition import Partition
from kwire.errors import ErrorCode, KafkaError
from kwire.log.partition_log import PartitionLog
from kwire.protocol.messages.fetch import FetchPartition
from tests.soak.things import PARTITIONS, fetch_session
from tests.support.in_process import running_server

LIMITS = SessionLimits(slots=3, partitions=100)


class Sessions:
    """The sessions of a broker, of clients that want so many partitions of a topic."""

    def __init__(self):
        self.all = FetchSessions(Random(1))

    def create(self, size, steady_ms=0, topic="orders", limits=LIMITS):
        """A new session, or None."""
        return self.all.create(
            wanted(size, topic), uses_topic_ids=False, limits=limits, steady_ms=steady_ms
        )

    def use(self, session, steady_ms):
        """The session is used once more."""
        assert self.all.get(session.session_id, session.epoch, False, steady_ms) is session

    def is_there(self, session):
        """Whether the broker knows a session."""
        try:
            self.use(session, session.used_ms)
        except KafkaError as error:
            if error.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                return False
            raise
        return True


def wanted(size, topic="orders"):
    """Some partitions, as a request asks for them."""
    return [((topic, bytes(16), n), FetchPartition(partition=n)) for n in range(size)]


@pytest.fixture
def sessions():
    """No session yet."""
    return Sessions()


def test_a_session_that_is_idle_for_longest_makes_room(sessions):
    """Two minutes have to pass first; until then a client without a session gets none."""
    first, second, _ = [sessions.create(1, steady_ms) for steady_ms in (0, 1, 2)]
    sessions.use(first, EVICTION_MS + 1)
    assert sessions.create(1, EVICTION_MS + 1) is None
    assert sessions.create(1, EVICTION_MS + 2) is not None
    assert sessions.is_there(first)
    assert not sessions.is_there(second)


def test_a_smaller_session_makes_room_when_it_is_not_new(sessions):
    """A session is worth more the more partitions it has, as in Kafka."""
    large, small, middle = [sessions.create(size) for size in (9, 2, 5)]
    for session in (large, small, middle):
        sessions.use(session, EVICTION_MS)
    assert sessions.create(9, EVICTION_MS) is None
    for session in (large, small, middle):
        sessions.use(session, EVICTION_MS + 1)
    assert sessions.create(2, EVICTION_MS + 1) is None
    assert sessions.create(3, EVICTION_MS + 1) is not None
    assert not sessions.is_there(small)
    assert sessions.is_there(large)
    assert sessions.is_there(middle)


def test_all_sessions_have_no_more_partitions_than_allowed(sessions):
    """One that doesn't fit isn't made; those that are idle make room for it."""
    first = sessions.create(60)
    assert sessions.create(41) is None
    assert sessions.create(40) is not None
    assert sessions.all.partitions == 100
    assert sessions.create(101, EVICTION_MS + 1) is None
    assert sessions.is_there(first)
    assert sessions.create(60, EVICTION_MS + 1) is not None
    assert not sessions.is_there(first)
    assert sessions.all.partitions == 100


def test_a_session_that_outgrows_the_bound_ends(sessions):
    """Its client is told that there is none, and asks for all it wants without one."""
    session = sessions.create(60)
    sessions.all.update(session, wanted(90), [], LIMITS)
    assert sessions.all.partitions == 90
    sessions.all.update(session, [], [key for key, _ in wanted(80)], LIMITS)
    assert sessions.all.partitions == 10
    with pytest.raises(KafkaError) as error:
        sessions.all.update(session, wanted(101), [], LIMITS)
    assert error.value.code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    assert not sessions.is_there(session)
    assert sessions.all.partitions == 0


def test_a_name_that_no_topic_can_have_is_not_kept(sessions):
    """A request may have names of 32 KB, which a bound on partitions would not see."""
    assert sessions.create(1, topic="x" * 250) is None
    session = sessions.create(1, topic="x" * 249)
    with pytest.raises(KafkaError):
        sessions.all.update(session, wanted(1, "y" * 250), [], LIMITS)
    assert sessions.all.partitions == 0


async def test_a_session_keeps_nothing_of_a_topic_that_was_deleted(tmp_path):
    """Its client never fetches again, and the logs are gone from memory all the same."""
    async with running_server(tmp_path) as running:
        client = await running.connect()
        await client.topic("doomed", PARTITIONS)
        await fetch_session(client, "doomed")
        await client.delete_topic("doomed")
        assert len(running.broker.fetch_sessions) == 1
        gc.collect()
        names = [one.topic for one in gc.get_objects() if isinstance(one, Partition | PartitionLog)]
        assert "doomed" not in names
        await client.aclose()
