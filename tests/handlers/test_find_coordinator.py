"""FindCoordinator over a socket."""

from kwire.errors import ErrorCode
from kwire.metadata.changes import BrokerRegistered
from kwire.metadata.image import BrokerImage
from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from tests.support.in_process import running_server


async def _find(server, version, *keys, key_type=0):
    client = await server.connect()
    fields = {"coordinator_keys": list(keys)} if version >= 4 else {"key": keys[0]}
    request = FindCoordinatorRequest(key_type=key_type, **fields)
    response = await client.request(request, version, FindCoordinatorResponse)
    await client.aclose()
    return response.coordinators if version >= 4 else [response]


async def test_this_broker_looks_after_every_group(server):
    """At the address that the client dialed; several groups at once from version 4 on."""
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


async def test_settings_of_a_cluster_don_t_keep_clients_from_their_coordinators(tmp_path):
    """A server.properties for three brokers: the topics get the one replica that kwire keeps."""
    settings = {
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "3",
        "transaction.state.log.min.isr": "2",
        "default.replication.factor": "3",
    }
    async with running_server(tmp_path, settings) as server:
        for key_type, topic in ((0, "__consumer_offsets"), (1, "__transaction_state")):
            [found] = await _find(server, 6, "a", key_type=key_type)
            assert (found.error_code, found.port) == (ErrorCode.NONE, server.port)
            assert server.broker.image.topics_by_name[topic].partitions[0].replicas == (1,)
            assert server.broker.topic_settings(topic)["min.insync.replicas"] == 1


async def test_a_topic_that_cannot_be_created_is_no_coordinator(tmp_path):
    """COORDINATOR_NOT_AVAILABLE, and why."""
    settings = {"offsets.topic.num.partitions": "20000"}
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


async def test_workers_wait_for_each_other_before_the_topic_is_made(tmp_path):
    """Else all of its partitions would be on those that happened to be first."""
    async with running_server(tmp_path, {"kwire.workers": "2"}) as server:
        [found] = await _find(server, 6, "a")
        assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        assert "when all 2 workers serve" in found.error_message
        second = BrokerImage(2, None, (("PLAINTEXT", "127.0.0.1", 1),))
        await server.broker.commit(lambda _: [BrokerRegistered(second)])
        [found] = await _find(server, 6, "a")
        assert found.error_code == ErrorCode.NONE
        topic = server.broker.image.topics_by_name["__consumer_offsets"]
        assert {partition.leader for partition in topic.partitions} == {1, 2}
