"""What is named more than once in a request, as Kafka answers it."""

from kwire.errors import ErrorCode
from kwire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kwire.protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResponse,
)
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kwire.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
)
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kwire.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)


def _topic(name, *indexes):
    partitions = [ListOffsetsPartition(partition_index=n, timestamp=-1) for n in indexes]
    return ListOffsetsTopic(name=name, partitions=partitions)


async def test_list_offsets_refuses_a_partition_that_is_named_twice(server):
    """It is answered once, INVALID_REQUEST; the others have their offsets."""
    client = await server.connect()
    topics = [_topic("orders", 0, 1, 0, 0), _topic("orders", 0), _topic("nowhere", 1, 1)]
    request = ListOffsetsRequest(replica_id=-1, topics=topics)
    answer = await client.request(request, 7, ListOffsetsResponse)
    told = {
        (topic.name, one.partition_index): (one.error_code, one.offset)
        for topic in answer.topics
        for one in topic.partitions
    }
    assert told == {
        ("orders", 0): (ErrorCode.INVALID_REQUEST, -1),
        ("orders", 1): (ErrorCode.NONE, 0),
        ("nowhere", 1): (ErrorCode.INVALID_REQUEST, -1),
    }
    assert sum(len(topic.partitions) for topic in answer.topics) == 3


async def test_describe_configs_answers_a_resource_each_time(server):
    """Each time with the keys that are asked for then."""
    client = await server.connect()
    resources = [
        DescribeConfigsResource(resource_type=2, resource_name="orders", configuration_keys=keys)
        for keys in (None, ["cleanup.policy"], ["cleanup.policy", "cleanup.policy"])
    ]
    request = DescribeConfigsRequest(resources=resources)
    answer = await client.request(request, 4, DescribeConfigsResponse)
    assert [len(result.configs) > 1 for result in answer.results] == [True, False, False]
    assert [result.configs[0].name for result in answer.results[1:]] == ["cleanup.policy"] * 2


async def test_describe_groups_answers_a_group_each_time(server):
    """Also one that nobody knows."""
    client = await server.connect()
    request = DescribeGroupsRequest(groups=["g", "g", "h"])
    answer = await client.request(request, 6, DescribeGroupsResponse)
    assert [group.group_id for group in answer.groups] == ["g", "g", "h"]


async def test_delete_records_takes_the_offset_that_is_named_last(server):
    """A partition is answered once."""
    client = await server.connect()
    partitions = [
        DeleteRecordsPartition(partition_index=0, offset=5),
        DeleteRecordsPartition(partition_index=0, offset=0),
    ]
    topics = [DeleteRecordsTopic(name="orders", partitions=partitions)]
    request = DeleteRecordsRequest(timeout_ms=1000, topics=topics)
    answer = await client.request(request, 2, DeleteRecordsResponse)
    (told,) = answer.topics[0].partitions
    assert (told.error_code, told.low_watermark) == (ErrorCode.NONE, 0)


async def test_lists_name_what_is_asked_for_twice_once(server):
    """Types of resources, and states of transactions that nobody knows."""
    client = await server.connect()
    request = ListConfigResourcesRequest(resource_types=[2, 2])
    answer = await client.request(request, 1, ListConfigResourcesResponse)
    names = [resource.resource_name for resource in answer.config_resources]
    assert names.count("orders") == 1
    states = ListTransactionsRequest(state_filters=["Odd", "Odd"])
    listed = await client.request(states, 1, ListTransactionsResponse)
    assert listed.unknown_state_filters == ["Odd"]


async def test_configs_of_many_resources_are_one_commit(server):
    """Each resource has its own answer, and all that may be altered are altered together."""
    client = await server.connect()
    config = AlterableConfig(name="consumer.session.timeout.ms", config_operation=0, value="50000")
    names = ["a", "b", "twice", "twice", "c"]
    resources = [
        AlterConfigsResource(resource_type=32, resource_name=name, configs=[config])
        for name in names
    ]
    resources.append(AlterConfigsResource(resource_type=2, resource_name="nowhere"))
    before = server.broker.image.revision
    answer = await client.request(
        IncrementalAlterConfigsRequest(resources=resources), 1, IncrementalAlterConfigsResponse
    )
    refused, unknown = ErrorCode.INVALID_REQUEST, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert [one.error_code for one in answer.responses] == [0, 0, refused, refused, 0, unknown]
    assert server.broker.image.revision == before + 1


async def test_a_resource_has_only_so_many_configs(server):
    """Names that nobody knows may be set for a broker, but not without end."""
    client = await server.connect()
    configs = [
        AlterableConfig(name=f"unknown-{n}", config_operation=0, value="x") for n in range(1001)
    ]
    resource = AlterConfigsResource(resource_type=4, resource_name="", configs=configs)
    answer = await client.request(
        IncrementalAlterConfigsRequest(resources=[resource]), 1, IncrementalAlterConfigsResponse
    )
    assert answer.responses[0].error_code == ErrorCode.INVALID_CONFIG
