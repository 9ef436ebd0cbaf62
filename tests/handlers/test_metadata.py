"""Metadata: the first use of a topic creates it, and says that it is unknown, as in Kafka."""

import pytest

from kwire.errors import ErrorCode
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.support.in_process import RunningServer, running_server


async def _ask(server: RunningServer, *names: str, version: int = 12) -> list[tuple[str, int]]:
    """The error of each topic, and how many partitions it has."""
    client = await server.connect()
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=True
    )
    response = await client.request(request, version, MetadataResponse)
    await client.aclose()
    return [(ErrorCode(topic.error_code).name, len(topic.partitions)) for topic in response.topics]


@pytest.mark.parametrize("version", range(14))
async def test_the_answer_after_the_first_describes_the_topic(server, version):
    """Whoever asks again has it, in every version."""
    unknown, there = ("UNKNOWN_TOPIC_OR_PARTITION", 0), ("NONE", 2)
    assert await _ask(server, "new", "newer", version=version) == [unknown, unknown]
    assert await _ask(server, "new", "newer", version=version) == [there, there]


async def test_a_topic_that_was_deleted_is_unknown_once_more(server):
    """Also to the request that creates it anew."""
    client = await server.connect()
    gone = DeleteTopicsRequest(topic_names=["orders"])
    await client.request(gone, 3, DeleteTopicsResponse)
    await client.aclose()
    assert await _ask(server, "orders") == [("UNKNOWN_TOPIC_OR_PARTITION", 0)]
    assert await _ask(server, "orders") == [("NONE", 2)]


async def test_a_topic_of_the_first_use_has_one_replica(tmp_path):
    """Also where the settings, which may be those of a cluster, ask for more."""
    async with running_server(tmp_path, {"default.replication.factor": "3"}) as server:
        assert await _ask(server, "new") == [("UNKNOWN_TOPIC_OR_PARTITION", 0)]
        assert await _ask(server, "new") == [("NONE", 1)]
        assert server.broker.image.topics_by_name["new"].partitions[0].replicas == (1,)
