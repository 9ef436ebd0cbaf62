"""What the APIs of topics and of the cluster need; see ``authorization_cases``."""

from compat_tests.authorization_cases import (
    NO_CLUSTER,
    NO_GROUP,
    NO_ID,
    NO_TOPIC,
    NONE,
    C,
    Case,
    D,
    G,
    R,
    T,
    Things,
    W,
    X,
)
from kwire.metadata.acls import AclOperation, PatternType, Permission
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages import (
    alter_configs,
    create_acls,
    create_partitions,
    create_topics,
    delete_acls,
    delete_records,
    delete_topics,
    describe_acls,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_quorum,
    describe_topic_partitions,
    elect_leaders,
    fetch,
    incremental_alter_configs,
    list_config_resources,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
    update_features,
)
from kwire.record.records import BatchBuilder, ProducerState

CREATE, ALTER, DELETE = AclOperation.CREATE, AclOperation.ALTER, AclOperation.DELETE
CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
ACTION = AclOperation.CLUSTER_ACTION

NOBODYS = bytes(15) + b"\7"
"""A topic id that no topic has."""


def produce_request(
    m: Things, *, by_id: bool = True, transactional: bool = False
) -> produce.ProduceRequest:
    """A record for the topic; by name, also one for the topic that doesn't exist."""
    builder = BatchBuilder()
    builder.add(1, None, b"v")
    producer = ProducerState(1, 0, 0) if transactional else ProducerState(-1, -1, -1)
    records = bytes(builder.build(producer=producer, transactional=transactional))
    wanted = [(m.topic, m.topic_id), *([] if by_id else [(m.missing, NOBODYS)])]
    topics = [
        produce.TopicProduceData(
            name=name,
            topic_id=topic_id,
            partition_data=[produce.PartitionProduceData(index=0, records=records)],
        )
        for name, topic_id in wanted
    ]
    return produce.ProduceRequest(
        transactional_id=m.transactional_id if transactional else None,
        acks=-1,
        timeout_ms=1000,
        topic_data=topics,
    )


def _fetch(m: Things, replica_id: int = -1) -> fetch.FetchRequest:
    one = fetch.FetchPartition(partition_max_bytes=1000)
    topics = [
        fetch.FetchTopic(topic=name, topic_id=topic_id, partitions=[one])
        for name, topic_id in ((m.topic, m.topic_id), (m.missing, NOBODYS))
    ]
    return fetch.FetchRequest(replica_id=replica_id, topics=topics)


def _list(m: Things) -> list_offsets.ListOffsetsRequest:
    one = list_offsets.ListOffsetsPartition(timestamp=-1)
    topics = [
        list_offsets.ListOffsetsTopic(name=name, partitions=[one]) for name in (m.topic, m.missing)
    ]
    return list_offsets.ListOffsetsRequest(replica_id=-1, topics=topics)


def _epochs(m: Things) -> offset_for_leader_epoch.OffsetForLeaderEpochRequest:
    one = offset_for_leader_epoch.OffsetForLeaderPartition(leader_epoch=0)
    topic = offset_for_leader_epoch.OffsetForLeaderTopic(topic=m.topic, partitions=[one])
    return offset_for_leader_epoch.OffsetForLeaderEpochRequest(replica_id=-1, topics=[topic])


def _names(m: Things) -> metadata.MetadataRequest:
    topics = [metadata.MetadataRequestTopic(name=name) for name in (m.topic, m.missing)]
    return metadata.MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def _new(m: Things) -> metadata.MetadataRequest:
    return metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=m.missing)])


def _ids(m: Things) -> metadata.MetadataRequest:
    topics = [metadata.MetadataRequestTopic(topic_id=m.topic_id, name=None)]
    return metadata.MetadataRequest(topics=topics)


def _create(m: Things) -> create_topics.CreateTopicsRequest:
    new = create_topics.CreatableTopic(name=m.missing, num_partitions=1, replication_factor=1)
    return create_topics.CreateTopicsRequest(topics=[new], validate_only=True)


def _extend(m: Things) -> create_partitions.CreatePartitionsRequest:
    topic = create_partitions.CreatePartitionsTopic(name=m.topic, count=2, assignments=None)
    return create_partitions.CreatePartitionsRequest(topics=[topic], validate_only=True)


def _delete(m: Things) -> delete_topics.DeleteTopicsRequest:
    return delete_topics.DeleteTopicsRequest(
        topics=[delete_topics.DeleteTopicState(topic_id=m.topic_id)],
        topic_names=[m.topic, m.missing],
        timeout_ms=5000,
    )


def _cut(m: Things) -> delete_records.DeleteRecordsRequest:
    one = delete_records.DeleteRecordsPartition()
    topic = delete_records.DeleteRecordsTopic(name=m.topic, partitions=[one])
    return delete_records.DeleteRecordsRequest(topics=[topic], timeout_ms=5000)


def _elect(m: Things) -> elect_leaders.ElectLeadersRequest:
    wanted = [elect_leaders.TopicPartitions(topic=m.topic, partitions=[0])]
    return elect_leaders.ElectLeadersRequest(topic_partitions=wanted, timeout_ms=5000)


def _describe_configs(
    kind: ConfigResourceType, name: str
) -> describe_configs.DescribeConfigsRequest:
    resource = describe_configs.DescribeConfigsResource(
        resource_type=kind, resource_name=name, configuration_keys=None
    )
    return describe_configs.DescribeConfigsRequest(resources=[resource])


def _alter(kind: ConfigResourceType, name: str) -> alter_configs.AlterConfigsRequest:
    resource = alter_configs.AlterConfigsResource(resource_type=kind, resource_name=name)
    return alter_configs.AlterConfigsRequest(resources=[resource], validate_only=True)


def _increment(
    kind: ConfigResourceType, name: str
) -> incremental_alter_configs.IncrementalAlterConfigsRequest:
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=kind, resource_name=name
    )
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=True
    )


def _new_acl(m: Things) -> create_acls.CreateAclsRequest:
    acl = create_acls.AclCreation(
        resource_type=T,
        resource_name=m.topic,
        principal="User:nobody",
        host="*",
        operation=R,
        permission_type=Permission.ALLOW,
    )
    return create_acls.CreateAclsRequest(creations=[acl])


def _old_acl(m: Things) -> delete_acls.DeleteAclsRequest:
    wanted = delete_acls.DeleteAclsFilter(
        resource_type_filter=T,
        resource_name_filter=m.topic,
        pattern_type_filter=PatternType.LITERAL,
        principal_filter="User:nobody",
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=Permission.ANY,
    )
    return delete_acls.DeleteAclsRequest(filters=[wanted])


def _acls(_: Things) -> describe_acls.DescribeAclsRequest:
    return describe_acls.DescribeAclsRequest(
        resource_type_filter=T,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=None,
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=Permission.ANY,
    )


def _quorum(_: Things) -> describe_quorum.DescribeQuorumRequest:
    one = describe_quorum.DescribeQuorumRequestPartitionData(partition_index=0)
    topic = describe_quorum.DescribeQuorumRequestTopicData(
        topic_name="__cluster_metadata", partitions=[one]
    )
    return describe_quorum.DescribeQuorumRequest(topics=[topic])


def _producers(m: Things) -> describe_producers.DescribeProducersRequest:
    topic = describe_producers.TopicRequest(name=m.topic, partition_indexes=[0])
    return describe_producers.DescribeProducersRequest(topics=[topic])


def _pages(m: Things) -> describe_topic_partitions.DescribeTopicPartitionsRequest:
    topics = [describe_topic_partitions.TopicRequest(name=name) for name in (m.topic, m.missing)]
    return describe_topic_partitions.DescribeTopicPartitionsRequest(topics=topics)


_OF_TOPIC, _OF_GROUP = ConfigResourceType.TOPIC, ConfigResourceType.GROUP
_OF_BROKER = ConfigResourceType.BROKER

CASES = (
    Case("Produce", lambda m: produce_request(m, by_id=False), 12, ((T, W),), NO_TOPIC, NO_TOPIC),
    Case("Produce by id", produce_request, 13, ((T, W),), NO_TOPIC, NO_TOPIC),
    Case(
        "Produce in a transaction",
        lambda m: produce_request(m, transactional=True),
        *(13, ((T, W), (X, W)), NO_ID, NO_ID),
    ),
    Case("Fetch", _fetch, 12, ((T, R),), NO_TOPIC, NO_TOPIC),
    Case("Fetch by id", _fetch, 13, ((T, R),), NO_TOPIC, NO_TOPIC),
    Case("Fetch of a replica", lambda m: _fetch(m, 7), 12, ((C, ACTION),), NO_TOPIC, NO_TOPIC),
    Case("ListOffsets", _list, 8, ((T, D),), NO_TOPIC, NONE),
    Case("OffsetForLeaderEpoch", _epochs, 4, ((T, D),), NO_TOPIC, NONE),
    Case("OffsetForLeaderEpoch of a broker", _epochs, 4, ((C, ACTION),), NO_TOPIC, NONE),
    Case("Metadata", _names, 12, ((T, D),), NO_TOPIC, NONE),
    Case("Metadata by id", _ids, 12, ((T, D),), NO_TOPIC, NONE),
    Case("Metadata that creates", _new, 12, ((T, D), (T, CREATE)), NO_TOPIC, NO_TOPIC),
    Case(
        "Metadata that creates, by the cluster", _new, 12, ((T, D), (C, CREATE)), NO_TOPIC, NO_TOPIC
    ),
    Case("DescribeTopicPartitions", _pages, 0, ((T, D),), NO_TOPIC, NONE),
    Case("CreateTopics", _create, 7, ((T, CREATE), (T, CONFIGS)), NO_TOPIC, NO_TOPIC),
    Case("CreateTopics v4, by the cluster", _create, 4, ((C, CREATE),), NO_TOPIC, NO_TOPIC),
    Case("CreatePartitions", _extend, 3, ((T, ALTER),), NO_TOPIC, NO_TOPIC),
    Case("DeleteTopics", _delete, 5, ((T, DELETE),), NO_TOPIC, NO_TOPIC),
    Case("DeleteTopics by id", _delete, 6, ((T, DELETE),), NO_TOPIC, NO_TOPIC),
    Case("DeleteTopics by the cluster", _delete, 6, ((C, DELETE),), NO_TOPIC, NO_TOPIC),
    Case("DeleteRecords", _cut, 2, ((T, DELETE),), NO_TOPIC, NO_TOPIC),
    Case("DescribeProducers", _producers, 0, ((T, R),), NO_TOPIC, NO_TOPIC),
    Case("ElectLeaders", _elect, 2, ((C, ALTER),), NO_CLUSTER, NO_CLUSTER),
    Case(
        "DescribeConfigs of a topic",
        lambda m: _describe_configs(_OF_TOPIC, m.topic),
        *(4, ((T, CONFIGS),), NO_TOPIC, NO_TOPIC),
    ),
    Case(
        "DescribeConfigs of a group",
        lambda m: _describe_configs(_OF_GROUP, m.group),
        *(4, ((G, CONFIGS),), NO_GROUP, NO_GROUP),
    ),
    Case(
        "DescribeConfigs of the brokers",
        lambda _: _describe_configs(_OF_BROKER, ""),
        *(4, ((C, CONFIGS),), NO_CLUSTER, NO_CLUSTER),
    ),
    Case(
        "AlterConfigs of a topic",
        lambda m: _alter(_OF_TOPIC, m.topic),
        *(2, ((T, ALTER_CONFIGS),), NO_TOPIC, NO_TOPIC),
    ),
    Case(
        "AlterConfigs of the brokers",
        lambda _: _alter(_OF_BROKER, ""),
        *(2, ((C, ALTER_CONFIGS),), NO_CLUSTER, NO_CLUSTER),
    ),
    Case(
        "IncrementalAlterConfigs of a topic",
        lambda m: _increment(_OF_TOPIC, m.topic),
        *(1, ((T, ALTER_CONFIGS),), NO_TOPIC, NO_TOPIC),
    ),
    Case(
        "IncrementalAlterConfigs of a group",
        lambda m: _increment(_OF_GROUP, m.group),
        *(1, ((G, ALTER_CONFIGS),), NO_GROUP, NO_GROUP),
    ),
    Case(
        "ListConfigResources",
        lambda _: list_config_resources.ListConfigResourcesRequest(),
        *(1, ((C, CONFIGS),), NO_CLUSTER, NO_CLUSTER),
    ),
    Case(
        "DescribeLogDirs",
        lambda _: describe_log_dirs.DescribeLogDirsRequest(topics=None),
        *(4, ((C, D),), NO_CLUSTER, NONE),
    ),
    Case("DescribeQuorum", _quorum, 1, ((C, D),), NO_CLUSTER, NONE),
    Case(
        "UpdateFeatures",
        lambda _: update_features.UpdateFeaturesRequest(validate_only=True),
        *(1, ((C, ALTER),), NO_CLUSTER, NO_CLUSTER),
    ),
    Case("DescribeAcls", _acls, 3, ((C, D),), NO_CLUSTER, NONE),
    Case("CreateAcls", _new_acl, 3, ((C, ALTER),), NO_CLUSTER, NO_CLUSTER),
    Case("DeleteAcls", _old_acl, 3, ((C, ALTER),), NO_CLUSTER, NO_CLUSTER),
)
