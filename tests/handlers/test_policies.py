"""The operator's policies refuse topics and changes of configs, with a reason for the client."""

import pytest

from kwire.config.policies import ConfigsRequest, NewTopicRequest
from kwire.errors import ErrorCode
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages.alter_configs import (
    AlterableConfig,
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResponse,
)
from kwire.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig as Alteration,
)
from kwire.protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as AlteredResource,
)
from kwire.protocol.messages.incremental_alter_configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from tests.support.in_process import running_server

SET, DELETE = 0, 1
TOPIC = ConfigResourceType.TOPIC
ASKED = []


def names_begin_with_a_team(request):
    """A policy for topics."""
    ASKED.append(request)
    if request.topic == "raises":
        raise ValueError("a mistake in the policy")
    if request.topic == "exits":
        raise SystemExit("a mistake in the policy")
    if request.topic == "says-yes":
        return True
    if request.topic == "says-much":
        return "\ud800" + "x" * 40_000
    if request.topic == "team-changed":
        request.configs["retention.ms"] = "7"
    if not request.topic.startswith("team-"):
        return f"{request.topic} doesn't begin with team-"
    return None


def nothing_is_kept_for_ever(request):
    """A policy for configs."""
    ASKED.append(request)
    return "keep it for a while" if request.configs.get("retention.ms") == "-1" else None


@pytest.fixture
async def client(tmp_path):
    """Of a broker with both policies, which has the topic team-a."""
    policies = {
        "create.topic.policy.class.name": f"{__name__}:names_begin_with_a_team",
        "alter.config.policy.class.name": f"{__name__}:nothing_is_kept_for_ever",
        "offsets.topic.num.partitions": "1",
    }
    async with running_server(tmp_path, policies) as server:
        client = await server.connect()
        await client.topic("team-a")
        ASKED.clear()
        yield client


async def _create(client, topic, *, validate_only=False):
    request = CreateTopicsRequest(topics=[topic], validate_only=validate_only)
    [result] = (await client.request(request, 7, CreateTopicsResponse)).topics
    return result.error_code, result.error_message


@pytest.mark.parametrize("validate_only", [False, True])
async def test_a_topic_is_refused_with_the_reason_of_the_policy(client, validate_only):
    """The policy sees what will be created, with the defaults of the broker."""
    topic = CreatableTopic(name="b", num_partitions=-1, replication_factor=-1)
    topic.configs = [CreatableTopicConfig(name="retention.ms", value="5")]
    refused = await _create(client, topic, validate_only=validate_only)
    assert refused == (ErrorCode.POLICY_VIOLATION, "b doesn't begin with team-")
    assert [NewTopicRequest("b", 1, 1, {}, {"retention.ms": "5"})] == ASKED
    topic.name = "team-b"
    assert await _create(client, topic, validate_only=validate_only) == (0, None)


async def test_a_policy_sees_the_replicas_that_a_client_gives(client):
    topic = CreatableTopic(name="b", num_partitions=-1, replication_factor=-1)
    topic.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]
    assert (await _create(client, topic))[0] == ErrorCode.POLICY_VIOLATION
    assert ASKED[0].assignments == {0: [1]}


@pytest.mark.parametrize(
    ("name", "mistake"),
    [
        ("raises", "a mistake in the policy"),
        ("exits", "a mistake in the policy"),
        ("says-yes", "a policy returns None or a text, not bool"),
    ],
)
async def test_a_policy_that_fails_refuses(client, caplog, name, mistake):
    """The client doesn't see the mistake, the log does, without the configs that were asked."""
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    topic.configs = [CreatableTopicConfig(name="retention.ms", value="987654")]
    refused = await _create(client, topic)
    assert refused == (ErrorCode.UNKNOWN_SERVER_ERROR, "The broker's policy failed.")
    assert mistake in caplog.text
    assert "987654" not in caplog.text


async def test_any_reason_can_be_sent(client):
    """However long it is, and with characters that UTF-8 lacks."""
    topic = CreatableTopic(name="says-much", num_partitions=1, replication_factor=1)
    refused = await _create(client, topic)
    assert refused == (ErrorCode.POLICY_VIOLATION, "?" + "x" * 999)


async def test_a_policy_changes_nothing(client):
    """It has a copy of the request."""
    topic = CreatableTopic(name="team-changed", num_partitions=1, replication_factor=1)
    topic.configs = [CreatableTopicConfig(name="retention.ms", value="5")]
    assert await _create(client, topic, validate_only=True) == (0, None)
    assert await _create(client, topic) == (0, None)
    wanted = DescribeConfigsResource(
        resource_type=TOPIC, resource_name="team-changed", configuration_keys=["retention.ms"]
    )
    request = DescribeConfigsRequest(resources=[wanted])
    [result] = (await client.request(request, 4, DescribeConfigsResponse)).results
    assert [config.value for config in result.configs] == ["5"]


async def test_the_first_use_of_a_name_creates_no_refused_topic(client):
    for name, code in (("b", ErrorCode.POLICY_VIOLATION), ("team-b", 0)):
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name)], allow_auto_topic_creation=True
        )
        await client.request(request, 12, MetadataResponse)
        [topic] = (await client.request(request, 12, MetadataResponse)).topics
        assert bool(topic.partitions) == (not code)


async def test_a_policy_is_not_asked_about_the_topics_of_coordinators(client):
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    answer = await client.request(request, 4, FindCoordinatorResponse)
    assert answer.coordinators[0].error_code == 0
    assert ASKED == []


async def test_a_change_of_configs_is_refused_with_the_reason_of_the_policy(client):
    """It sees the values that the request sets, and not those that it deletes."""

    async def alter(*configs):
        resource = AlteredResource(
            resource_type=TOPIC,
            resource_name="team-a",
            configs=[
                Alteration(name=name, config_operation=kind, value=value)
                for name, kind, value in configs
            ],
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        [one] = (await client.request(request, 1, IncrementalAlterConfigsResponse)).responses
        return one.error_code, one.error_message

    assert await alter(("retention.ms", SET, "7")) == (0, None)
    assert await alter(("retention.ms", DELETE, None), ("segment.ms", SET, "9")) == (0, None)
    refused = await alter(("retention.ms", SET, "-1"))
    assert refused == (ErrorCode.POLICY_VIOLATION, "keep it for a while")
    assert [
        ConfigsRequest("TOPIC", "team-a", {"retention.ms": "7"}),
        ConfigsRequest("TOPIC", "team-a", {"segment.ms": "9"}),
        ConfigsRequest("TOPIC", "team-a", {"retention.ms": "-1"}),
    ] == ASKED


async def test_configs_that_are_replaced_are_refused_too(client):
    configs = [AlterableConfig(name="retention.ms", value="-1")]
    resource = AlterConfigsResource(resource_type=TOPIC, resource_name="team-a", configs=configs)
    request = AlterConfigsRequest(resources=[resource])
    [one] = (await client.request(request, 2, AlterConfigsResponse)).responses
    assert (one.error_code, one.error_message) == (
        ErrorCode.POLICY_VIOLATION,
        "keep it for a while",
    )
