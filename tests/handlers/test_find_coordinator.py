"""FindCoordinator over a socket."""

from kwire.errors import ErrorCode
from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.testing.in_process import running_server


async def _find(server, version, *keys, key_type=0):
    client = await server.connect()
    fields = {"coordinator_keys": list(keys)} if version >= 4 else {"key": keys[0]}
    request = FindCoordinatorRequest(key_type=key_type, **fields)
    response = await client.request(request, version, FindCoordinatorResponse)
    await client.aclose()
    return response.coordinators if version >= 4 else [response]


async def test_this_broker_looks_after_every_group(server):
    """At the address that the client dialled; several groups at once from version 4 on."""
    for version in range(7):
        keys = ["a", "b"] if version >= 4 else ["a"]
        found = await _find(server, version, *keys)
        for coordinator in found:
            assert coordinator.error_code == ErrorCode.NONE
            assert (coordinator.node_id, coordinator.host) == (1, server.host)
            assert coordinator.port == server.port
        if version >= 4:
            assert [coordinator.key for coordinator in found] == keys


async def test_the_first_question_creates_the_topic(tmp_path):
    """As Kafka configures it; the answer is true at once."""
    async with running_server(tmp_path) as server:
        [found] = await _find(server, 6, "a")
        assert found.error_code == ErrorCode.NONE
        assert len(server.broker.image.topics_by_name["__consumer_offsets"].partitions) == 50
        settings = server.broker.topic_settings("__consumer_offsets")
        assert settings["cleanup.policy"] == ["compact"]
        assert settings["compression.type"] == "producer"
        assert settings["segment.bytes"] == 104857600


async def test_a_topic_that_cannot_be_created_is_no_coordinator(tmp_path):
    """COORDINATOR_NOT_AVAILABLE, and why."""
    settings = {"offsets.topic.replication.factor": "3"}
    async with running_server(tmp_path, settings) as server:
        [found] = await _find(server, 6, "a")
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert "__consumer_offsets" in found.error_message
        assert (found.node_id, found.port) == (-1, -1)


async def test_a_transactional_id_has_its_coordinator_here(tmp_path):
    """``__transaction_state`` is created with the first question, with Kafka's settings."""
    settings = {"transaction.state.log.num.partitions": "3"}
    async with running_server(tmp_path, settings) as server:
        [found] = await _find(server, 6, "ledger", key_type=1)
        assert (found.error_code, found.port) == (ErrorCode.NONE, server.port)
        assert len(server.broker.image.topics_by_name["__transaction_state"].partitions) == 3
        assert server.broker.topic_settings("__transaction_state")["cleanup.policy"] == ["compact"]


NOT_SERVED = [
    (2, ErrorCode.INVALID_REQUEST),
    (9, ErrorCode.INVALID_REQUEST),
]


async def test_what_is_not_served_is_refused_for_good(server):
    """An error that clients don't try again after, with the reason."""
    for key_type, code in NOT_SERVED:
        for version in (1, 6):
            [found] = await _find(server, version, "a", key_type=key_type)
            assert found.error_code == code
            assert found.error_message
