"""The APIs of streams groups, and how the internal topics of their topologies are created."""

import pytest

from kwire.clock import Clock
from kwire.config.authorizer import STANDARD_AUTHORIZER
from kwire.coordinator.streams.topology.configured import InternalTopic
from kwire.errors import ErrorCode
from kwire.handlers.lib.context import ConnectionInfo, RequestContext
from kwire.handlers.lib.streams_internal_topics import create_internal_topics
from kwire.metadata.acls import (
    CLUSTER_NAME,
    AclBinding,
    AclOperation,
    AclsCreated,
    PatternType,
    Permission,
    ResourceType,
)
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages.streams_group_topology_description_update import (
    StreamsGroupTopologyDescriptionUpdateRequest,
    StreamsGroupTopologyDescriptionUpdateResponse,
)
from tests.dispatch.test_metering import alter
from tests.support.in_process import running_server
from tests.support.work import free_work

CLIENT = ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1, "127.0.0.1", 2)
STORE = InternalTopic("app-counts-changelog", 3, configs={"cleanup.policy": "compact"})
REPARTITION = InternalTopic("app-words-repartition", 2, 1)


async def create(server, *topics: InternalTopic) -> str:
    """What a heartbeat of this client would say of topics that it had created."""
    context = RequestContext(server.broker, CLIENT, 1, "app", free_work())
    return await create_internal_topics({topic.name: topic for topic in topics}, context)


def allow(operation: AclOperation, kind: ResourceType, name: str, pattern: PatternType):
    """A change that allows every client something."""
    acl = AclBinding(kind, name, pattern, "User:*", "*", operation, Permission.ALLOW)
    return lambda _image: [AclsCreated((acl,))]


@pytest.mark.parametrize("protocols", ["classic,streams", "classic"])
async def test_descriptions_of_topologies_are_refused(tmp_path, protocols):
    async with running_server(
        tmp_path, {"group.coordinator.rebalance.protocols": protocols}
    ) as server:
        answer = await server.request(
            StreamsGroupTopologyDescriptionUpdateRequest(group_id="app", member_id="m"),
            *(0, StreamsGroupTopologyDescriptionUpdateResponse),
        )
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert ("plugin" in answer.error_message) == ("streams" in protocols)


async def test_topics_are_created_as_the_topology_wants_them(tmp_path):
    """Two members may be told at the same time that topics are missing."""
    async with running_server(tmp_path) as server:
        assert await create(server, STORE, REPARTITION) == ""
        image = server.broker.image
        topics = image.topics_by_name
        assert len(topics[STORE.name].partitions) == 3
        configs = image.config(ConfigResourceType.TOPIC, STORE.name)
        assert configs == {"cleanup.policy": "compact"}
        assert len(topics[REPARTITION.name].partitions) == 2
        assert await create(server, STORE, REPARTITION) == ""


async def test_a_topic_that_cant_be_created_is_named_with_the_reason(tmp_path):
    """The others are created; three are named."""
    wrong = [InternalTopic(f"t{n}", 1, configs={"cleanup.policy": "never"}) for n in range(5)]
    async with running_server(tmp_path) as server:
        said = await create(server, wrong[0], STORE)
        assert said.startswith("; Creation failed: t0 (Invalid value never for configuration")
        assert said.endswith(").")
        assert STORE.name in server.broker.image.topics_by_name
        said = await create(server, *wrong)
        assert "t2 (" in said
        assert "t3" not in said
        assert said.endswith(") and 2 more.")


async def test_the_quota_for_changes_refuses_topics(tmp_path):
    """Whatever the version of the heartbeat: the client asks again anyway."""
    async with running_server(tmp_path, clock=Clock(steady_ms=lambda: 0)) as server:
        await alter(server, controller_mutation_rate=1.0)
        assert await create(server, InternalTopic("many", 20)) == ""
        said = await create(server, STORE)
    assert said == (f"; Creation failed: {STORE.name} (The throttling quota has been exceeded.).")


async def test_a_client_needs_create_on_every_topic_or_on_the_cluster(tmp_path):
    settings = {"authorizer.class.name": STANDARD_AUTHORIZER}
    create_topic = AclOperation.CREATE, ResourceType.TOPIC
    async with running_server(tmp_path, settings) as server:
        said = f"; Unauthorized to CREATE on topics {STORE.name},{REPARTITION.name}."
        assert await create(server, STORE, REPARTITION) == said
        await server.broker.commit(allow(*create_topic, "app-counts", PatternType.PREFIXED))
        said = f"; Unauthorized to CREATE on topics {REPARTITION.name}."
        assert await create(server, STORE, REPARTITION) == said
        assert STORE.name not in server.broker.image.topics_by_name
        assert await create(server, STORE) == ""
        cluster = ResourceType.CLUSTER, CLUSTER_NAME, PatternType.LITERAL
        await server.broker.commit(allow(AclOperation.CREATE, *cluster))
        assert await create(server, STORE, REPARTITION) == ""
        assert REPARTITION.name in server.broker.image.topics_by_name
