"""For every API the request that costs most for its size, by the name of the API.

A request is given for a number of elements, so that a test can double it. What is named exists
where that costs more: ``t`` is a topic of ``PARTITIONS`` partitions, there are ``GROUPS`` groups
with an offset, and ``big`` is a group with an offset of every partition.
"""

from zlib import crc32

from bench.worst_access_requests import CONSTANT_OF_ACCESS, WORST_OF_ACCESS
from bench.worst_replica_requests import WORST_OF_REPLICAS
from bench.worst_share_requests import WORST_OF_SHARE
from bench.worst_streams_requests import WORST_OF_STREAMS
from bench.worst_topic_requests import PARTITIONS, WORST_OF_TOPICS
from kwire.config.client_metrics import PUSH_INTERVAL_MS
from kwire.handlers import APIS, OWN_APIS
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages import message_classes
from kwire.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from kwire.protocol.messages.add_raft_voter import AddRaftVoterRequest, Listener
from kwire.protocol.messages.announce_member import AnnounceMemberRequest, Announcement
from kwire.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.delete_groups import DeleteGroupsRequest
from kwire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from kwire.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.describe_log_dirs import DescribableLogDirTopic, DescribeLogDirsRequest
from kwire.protocol.messages.describe_producers import DescribeProducersRequest
from kwire.protocol.messages.describe_producers import TopicRequest as ProducersTopic
from kwire.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestTopicData,
)
from kwire.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from kwire.protocol.messages.describe_transactions import DescribeTransactionsRequest
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kwire.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kwire.protocol.messages.list_config_resources import ListConfigResourcesRequest
from kwire.protocol.messages.list_groups import ListGroupsRequest
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.protocol.messages.list_transactions import ListTransactionsRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kwire.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from kwire.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.messages.push_telemetry import PushTelemetryRequest
from kwire.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from kwire.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from kwire.protocol.otlp import MOST_ATTRIBUTES
from kwire.protocol.wire import append_unsigned_varint
from kwire.record.records import BatchBuilder

ALL_APIS = APIS | OWN_APIS
KEYS = {api.name: key for key, api in ALL_APIS.items()}
GROUPS = 300


def _names(count):
    return [f"name-{n}" for n in range(count)]


def _indexes(count):
    return [n % PARTITIONS for n in range(count)]


def _produce(count):
    builder = BatchBuilder()
    builder.add(1_700_000_000_000, None, b"v")
    batch = bytes(builder.build())
    data = [PartitionProduceData(index=index, records=batch) for index in _indexes(count)]
    topic = TopicProduceData(name="t", partition_data=data)
    return ProduceRequest(acks=1, timeout_ms=1000, topic_data=[topic])


def _fetch(count):
    partitions = [
        FetchPartition(partition=PARTITIONS + n, fetch_offset=0, partition_max_bytes=100)
        for n in range(count)
    ]  # an error costs more than a partition without records
    topics = [FetchTopic(topic="t", partitions=partitions)]
    return FetchRequest(session_epoch=0, max_wait_ms=0, min_bytes=1, max_bytes=100, topics=topics)


def _list_offsets(count):
    partitions = [ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(count)]
    topics = [ListOffsetsTopic(name="t", partitions=partitions)] * 2
    return ListOffsetsRequest(replica_id=-1, topics=topics)


def _metadata(count):
    topics = [MetadataRequestTopic(name=name) for name in [*_names(count), "t"]]
    return MetadataRequest(topics=topics, allow_auto_topic_creation=False)


def offset_commit(count):
    """A commit of so many offsets of the group ``big``."""
    partitions = [
        OffsetCommitRequestPartition(partition_index=index, committed_offset=1)
        for index in _indexes(count)
    ]
    topic = OffsetCommitRequestTopic(name="t", partitions=partitions)
    return OffsetCommitRequest(group_id="big", topics=[topic])


def _offset_fetch(count):
    whole = [OffsetFetchRequestGroup(group_id="big", topics=None)] * (count // 20)
    wanted = OffsetFetchRequestTopics(name="t", partition_indexes=_indexes(count))
    parts = OffsetFetchRequestGroup(group_id="big", topics=[wanted])
    return OffsetFetchRequest(groups=[*whole, parts], require_stable=True)


def _join_group(count):
    protocols = [JoinGroupRequestProtocol(name=name, metadata=b"m") for name in _names(count)]
    return JoinGroupRequest(
        group_id=f"joins-{count}",
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=protocols,
    )


def _sync_group(count):
    assignments = [
        SyncGroupRequestAssignment(member_id=name, assignment=b"a") for name in _names(count)
    ]
    return SyncGroupRequest(
        group_id="joins-few", generation_id=1, member_id="m", assignments=assignments
    )


def _leave_group(count):
    members = [MemberIdentity(member_id=name) for name in _names(count)]
    return LeaveGroupRequest(group_id="big", members=members)


def _delete_records(count):
    partitions = [DeleteRecordsPartition(partition_index=n, offset=0) for n in range(count)]
    return DeleteRecordsRequest(
        timeout_ms=1000, topics=[DeleteRecordsTopic(name="t", partitions=partitions)]
    )


def _leader_epochs(count):
    partitions = [OffsetForLeaderPartition(partition=n, leader_epoch=0) for n in _indexes(count)]
    topic = OffsetForLeaderTopic(topic="t", partitions=partitions)
    return OffsetForLeaderEpochRequest(topics=[topic])


def _add_partitions(count):
    topic = AddPartitionsToTxnTopic(name="t", partitions=_indexes(count))
    one = AddPartitionsToTxnTransaction(
        transactional_id="x", producer_id=7, producer_epoch=0, verify_only=True, topics=[topic]
    )
    others = [
        AddPartitionsToTxnTransaction(
            transactional_id=name, producer_id=7, producer_epoch=0, topics=[]
        )
        for name in _names(count // 2)
    ]
    return AddPartitionsToTxnRequest(transactions=[one, *others])


def _write_markers(count):
    topic = WritableTxnMarkerTopic(name="t", partition_indexes=_indexes(count))
    marker = WritableTxnMarker(
        producer_id=7,
        producer_epoch=1,
        transaction_result=True,
        coordinator_epoch=0,
        topics=[topic],
    )
    return WriteTxnMarkersRequest(markers=[marker])


def _txn_offset_commit(count):
    partitions = [
        TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=1)
        for index in _indexes(count)
    ]
    topic = TxnOffsetCommitRequestTopic(name="t", partitions=partitions)
    return TxnOffsetCommitRequest(
        transactional_id="x", group_id="big", producer_id=0, producer_epoch=0, topics=[topic]
    )


def _describe_configs(count):
    resources = [
        DescribeConfigsResource(resource_type=ConfigResourceType.GROUP, resource_name=name)
        for name in _names(count)
    ]
    return DescribeConfigsRequest(resources=resources, include_synonyms=True)


def _offset_delete(count):
    partitions = [OffsetDeleteRequestPartition(partition_index=n) for n in range(count)]
    topic = OffsetDeleteRequestTopic(name="t", partitions=partitions)
    return OffsetDeleteRequest(group_id="big", topics=[topic])


def _consumer_heartbeat(count):
    return ConsumerGroupHeartbeatRequest(
        group_id=f"beats-{count}",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=_names(count),
        topic_partitions=[],
    )


def _push_telemetry(count):
    """Points with as many attributes as are read; each count is another client's first push."""
    instance_id = count.to_bytes(16)
    attributes = b"".join(
        _otlp(7, _otlp(1, b"k%d" % n) + _otlp(2, _otlp(1, b"v"))) for n in range(MOST_ATTRIBUTES)
    )
    metric = _otlp(2, _otlp(1, b"m") + _otlp(5, _otlp(1, attributes) * count))
    number = crc32(f"(){PUSH_INTERVAL_MS}".encode() + instance_id)
    return PushTelemetryRequest(
        client_instance_id=instance_id,
        subscription_id=number - (1 << 31),
        metrics=_otlp(1, _otlp(2, metric)),
    )


def _otlp(number, content):
    """A field of Protocol Buffers."""
    size = bytearray()
    append_unsigned_varint(size, len(content))
    return bytes([number << 3 | 2]) + size + content


WORST = {
    **WORST_OF_REPLICAS,
    **WORST_OF_ACCESS,
    **WORST_OF_TOPICS,
    **WORST_OF_SHARE,
    **WORST_OF_STREAMS,
    "Produce": _produce,
    "Fetch": _fetch,
    "ListOffsets": _list_offsets,
    "Metadata": _metadata,
    "OffsetCommit": offset_commit,
    "OffsetFetch": _offset_fetch,
    "FindCoordinator": lambda count: FindCoordinatorRequest(coordinator_keys=_names(count)),
    "JoinGroup": _join_group,
    "LeaveGroup": _leave_group,
    "SyncGroup": _sync_group,
    "DescribeGroups": lambda count: DescribeGroupsRequest(groups=_names(count)),
    "ListGroups": lambda count: ListGroupsRequest(states_filter=[*_names(count), "Empty"]),
    "DeleteRecords": _delete_records,
    "AddRaftVoter": lambda count: AddRaftVoterRequest(
        listeners=[Listener(name=name, host=name, port=1) for name in _names(count)]
    ),
    "OffsetForLeaderEpoch": _leader_epochs,
    "AddPartitionsToTxn": _add_partitions,
    "WriteTxnMarkers": _write_markers,
    "TxnOffsetCommit": _txn_offset_commit,
    "DescribeConfigs": _describe_configs,
    "DescribeLogDirs": lambda count: DescribeLogDirsRequest(
        topics=[DescribableLogDirTopic(topic="t", partitions=_indexes(count))]
    ),
    "DeleteGroups": lambda count: DeleteGroupsRequest(groups_names=_names(count)),
    "OffsetDelete": _offset_delete,
    "UpdateFeatures": lambda count: UpdateFeaturesRequest(
        feature_updates=[
            FeatureUpdateKey(feature=name, max_version_level=1, upgrade_type=1)
            for name in _names(count)
        ]
    ),
    "DescribeProducers": lambda count: DescribeProducersRequest(
        topics=[ProducersTopic(name="t", partition_indexes=list(range(count)))]
    ),
    "DescribeTransactions": lambda count: DescribeTransactionsRequest(
        transactional_ids=_names(count)
    ),
    "ListTransactions": lambda count: ListTransactionsRequest(state_filters=_names(count)),
    "ConsumerGroupHeartbeat": _consumer_heartbeat,
    "ConsumerGroupDescribe": lambda count: ConsumerGroupDescribeRequest(group_ids=_names(count)),
    "ListConfigResources": lambda count: ListConfigResourcesRequest(
        resource_types=[2, 32] * (count // 2)
    ),
    "DescribeTopicPartitions": lambda count: DescribeTopicPartitionsRequest(
        topics=[TopicRequest(name=name) for name in [*_names(count), "t"]]
    ),
    "PushTelemetry": _push_telemetry,
    "DescribeQuorum": lambda count: DescribeQuorumRequest(
        topics=[DescribeQuorumRequestTopicData(topic_name=name) for name in _names(count)]
    ),
    "AnnounceMember": lambda count: AnnounceMemberRequest(
        announcements=[Announcement(group_id=name, connection_id=1) for name in _names(count)]
    ),
}
"""Requests whose cost grows with the number of their elements."""

CONSTANT = {
    **CONSTANT_OF_ACCESS,
    12: {"group_id": "big"},
    18: {"client_software_name": "a", "client_software_version": "1"},
    22: {"transactional_id": None, "transaction_timeout_ms": 1000},
    25: {"transactional_id": "x", "group_id": "big"},
    26: {"transactional_id": "x", "committed": True},
    60: {},
    64: {"broker_id": 9},
    71: {},
    81: {"cluster_id": None, "voter_id": 9},
    94: {"controller_id": 9},
    20_000: {"group_id": "big"},
    20_002: {"group_id": "big", "max_ranges": 10_000},
}
"""APIs whose requests have no arrays, by key; what the request says."""


def constant(api_key):
    """The request of an API of ``CONSTANT``."""
    return message_classes(api_key)[0](**CONSTANT[api_key])


def version_of(name):
    """The version that is tried: the latest, but where another lets a request do more."""
    special = {"Produce": 9, "Fetch": 12, "OffsetCommit": 8, "OffsetFetch": 8}
    special |= {"JoinGroup": 3, "SyncGroup": 3}
    return special.get(name, ALL_APIS[KEYS[name]].max_version)
