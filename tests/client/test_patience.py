"""Who waits for a leader or a coordinator is told after a second what the client waits for."""

from random import Random

import pytest
import trio

from kwire.client.cluster import open_cluster
from kwire.client.fetcher import Fetcher
from kwire.client.leaders import TopicPartition
from kwire.client.offsets import ends_of
from kwire.client.patience import Patience
from kwire.client.settings import ClientSettings
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.list_offsets import ListOffsetsRequest
from kwire.protocol.messages.metadata import MetadataRequest

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
NO_LEADER = "t-1 has no leader"


@pytest.fixture
def told() -> list[tuple[float, str]]:
    """When and what was told; the times are seconds since the test began."""
    return []


@pytest.fixture
async def cluster(brokers, told):
    """A client of two scripted brokers; t-1 has no leader."""
    brokers.leaders = {0: 1, 1: -1}
    brokers.ranges[ListOffsetsRequest.API_KEY] = (1, 1)
    begun_s = trio.current_time()
    settings = ClientSettings(
        give_up_s=10, tell=lambda text: told.append((trio.current_time() - begun_s, text))
    )
    async with open_cluster([("h", 1)], settings, brokers.open, Random(7)) as found:
        yield found


async def test_a_question_to_a_missing_leader(cluster, autojump_clock, told):
    """Told once, between one and two and a half seconds after the first failure."""
    with pytest.raises(KafkaError, match=NO_LEADER):
        await ends_of(cluster, [T1])
    ((when_s, text),) = told
    assert text == NO_LEADER
    assert 1 <= when_s <= 2.5


async def test_a_reader_of_a_partition_without_a_leader(cluster, autojump_clock, told):
    """A fetch is tried again just so."""
    with pytest.raises(KafkaError, match=NO_LEADER) as raised:
        await Fetcher(cluster, {T1: 0}).run()
    assert raised.value.code == ErrorCode.LEADER_NOT_AVAILABLE
    ((when_s, text),) = told
    assert (text, 1 <= when_s <= 2.5) == (NO_LEADER, True)


async def test_a_topic_that_is_not_ready(brokers, cluster, autojump_clock, told):
    """The code says what is wrong where the message only names the topic."""

    def answer(port, request, version):
        found = brokers.default(port, request, version)
        if isinstance(request, MetadataRequest):
            for topic in found.topics:
                topic.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return found

    brokers.answer = answer
    with pytest.raises(KafkaError):
        await cluster.topics(["t"])
    assert [text for _, text in told] == ["topic t: KAFKA_STORAGE_ERROR"]


async def test_a_short_wait_says_nothing(mock_clock):
    """The second begins with the first failure, or when the question was asked."""
    told: list[str] = []
    reasons = [KafkaError(ErrorCode.LEADER_NOT_AVAILABLE, f"t-{n} has no leader") for n in range(5)]
    asked_s = trio.current_time()
    mock_clock.jump(0.9)
    for since_s in (None, asked_s):
        Patience(told.append, since_s).failed(reasons)
    patience = Patience(told.append)
    assert told == []
    for _ in range(4):
        patience.failed(reasons)
        mock_clock.jump(0.5)
    text = "t-0 has no leader, t-1 has no leader, t-2 has no leader and 2 more"
    assert told == [text]
    Patience(told.append, asked_s).failed(reasons)
    assert told == [text, text]
