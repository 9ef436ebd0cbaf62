"""The requests about topics and configs that cost most; a part of ``bench.worst_requests``.

The requests of ``OF_TOPICS`` name topics that have to be created before, ``name-0`` and so on.
"""

from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages.alter_configs import AlterableConfig as ReplacedConfig
from kwire.protocol.messages.alter_configs import AlterConfigsRequest
from kwire.protocol.messages.alter_configs import AlterConfigsResource as ReplacedResource
from kwire.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kwire.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)

PARTITIONS = 200
"""How many partitions the topic ``t`` has."""

GROUP_CONFIGS = (
    ("consumer.session.timeout.ms", "50000"),
    ("consumer.heartbeat.interval.ms", "6000"),
)


def _names(count):
    return [f"name-{n}" for n in range(count)]


def _create_topics(count):
    topics = [
        CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in _names(count)
    ]
    return CreateTopicsRequest(topics=topics, validate_only=True)


def _group_configs(count, resource, config):
    """The same two values for a third as many groups, as resources of either API."""
    return [
        resource(
            resource_type=ConfigResourceType.GROUP,
            resource_name=name,
            configs=[config(name=key, value=value) for key, value in GROUP_CONFIGS],
        )
        for name in _names(count // 3)
    ]


def _alter_configs(count):
    resources = _group_configs(count, ReplacedResource, ReplacedConfig)
    return AlterConfigsRequest(resources=resources, validate_only=True)


def _incremental(count):
    resources = _group_configs(count, AlterConfigsResource, AlterableConfig)
    return IncrementalAlterConfigsRequest(resources=resources, validate_only=True)


WORST_OF_TOPICS = {
    "CreateTopics": _create_topics,
    "DeleteTopics": lambda count: DeleteTopicsRequest(
        topics=[DeleteTopicState(name=name) for name in _names(count)]
    ),
    "AlterConfigs": _alter_configs,
    "IncrementalAlterConfigs": _incremental,
    "CreatePartitions": lambda count: CreatePartitionsRequest(
        topics=[CreatePartitionsTopic(name=name, count=2) for name in _names(count)]
    ),
}
"""Requests whose cost grows with the number of their elements."""

OF_TOPICS = ("CreatePartitions", "DeleteTopics")


def _one_topic(count):
    topic = CreatableTopic(name="wide", num_partitions=count, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], validate_only=True)


def _one_assigned_topic(count):
    assignments = [
        CreatableReplicaAssignment(partition_index=n, broker_ids=[1]) for n in range(count)
    ]
    topic = CreatableTopic(
        name="wide", num_partitions=-1, replication_factor=-1, assignments=assignments
    )
    return CreateTopicsRequest(topics=[topic], validate_only=True)


def _more_partitions(count):
    topic = CreatePartitionsTopic(name="t", count=PARTITIONS + count)
    return CreatePartitionsRequest(topics=[topic], validate_only=True)


IN_ONE = {
    "CreateTopics, one topic": ("CreateTopics", _one_topic),
    "CreateTopics, one assigned topic": ("CreateTopics", _one_assigned_topic),
    "CreatePartitions, one topic": ("CreatePartitions", _more_partitions),
}
"""Requests for one thing that consists of many; the API's name and the request."""
