"""What the APIs of share groups need, of members and of brokers; see ``authorization_cases``."""

from compat_tests.authorization_cases import (
    NO_CLUSTER,
    NO_GROUP,
    NO_TOPIC,
    NONE,
    C,
    Case,
    D,
    G,
    R,
    T,
    Things,
)
from kwire.metadata.acls import AclOperation
from kwire.protocol.messages import (
    alter_share_group_offsets,
    delete_share_group_offsets,
    delete_share_group_state,
    describe_share_group_offsets,
    find_coordinator,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
    share_acknowledge,
    share_fetch,
    share_group_describe,
    share_group_heartbeat,
    write_share_group_state,
)
from kwire.protocol.types import Request, uuid_to_str

ACTION = ((C, AclOperation.CLUSTER_ACTION),)
SHARE = 2


def _initialize(m: Things) -> Request:
    api = initialize_share_group_state
    topic = api.InitializeStateData(topic_id=m.topic_id, partitions=[api.PartitionData()])
    return api.InitializeShareGroupStateRequest(group_id=m.group, topics=[topic])


def _read(m: Things) -> Request:
    api = read_share_group_state
    topic = api.ReadStateData(topic_id=m.topic_id, partitions=[api.PartitionData()])
    return api.ReadShareGroupStateRequest(group_id=m.group, topics=[topic])


def _write(m: Things) -> Request:
    api = write_share_group_state
    topic = api.WriteStateData(topic_id=m.topic_id, partitions=[api.PartitionData()])
    return api.WriteShareGroupStateRequest(group_id=m.group, topics=[topic])


def _delete(m: Things) -> Request:
    api = delete_share_group_state
    topic = api.DeleteStateData(topic_id=m.topic_id, partitions=[api.PartitionData()])
    return api.DeleteShareGroupStateRequest(group_id=m.group, topics=[topic])


def _summary(m: Things) -> Request:
    api = read_share_group_state_summary
    topic = api.ReadStateSummaryData(topic_id=m.topic_id, partitions=[api.PartitionData()])
    return api.ReadShareGroupStateSummaryRequest(group_id=m.group, topics=[topic])


def _find(m: Things) -> Request:
    key = f"{m.group}:{uuid_to_str(m.topic_id)}:0"
    return find_coordinator.FindCoordinatorRequest(key_type=SHARE, coordinator_keys=[key])


def _heartbeat(m: Things) -> Request:
    return share_group_heartbeat.ShareGroupHeartbeatRequest(
        group_id=m.group,
        member_id="VDdqRwIyRk6fPpCwVHJwmQ",
        member_epoch=0,
        subscribed_topic_names=[m.topic],
    )


def _describe(m: Things) -> Request:
    return share_group_describe.ShareGroupDescribeRequest(group_ids=[m.group])


def _describe_offsets(m: Things) -> Request:
    api = describe_share_group_offsets
    topic = api.DescribeShareGroupOffsetsRequestTopic(topic_name=m.topic, partitions=[0])
    group = api.DescribeShareGroupOffsetsRequestGroup(group_id=m.group, topics=[topic])
    return api.DescribeShareGroupOffsetsRequest(groups=[group])


def _alter_offsets(m: Things) -> Request:
    api = alter_share_group_offsets
    row = api.AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=0)
    topic = api.AlterShareGroupOffsetsRequestTopic(topic_name=m.topic, partitions=[row])
    return api.AlterShareGroupOffsetsRequest(group_id=m.group, topics=[topic])


def _delete_offsets(m: Things) -> Request:
    api = delete_share_group_offsets
    topic = api.DeleteShareGroupOffsetsRequestTopic(topic_name=m.topic)
    return api.DeleteShareGroupOffsetsRequest(group_id=m.group, topics=[topic])


def _fetch(m: Things) -> Request:
    partition = share_fetch.FetchPartition(partition_index=0)
    topic = share_fetch.FetchTopic(topic_id=m.topic_id, partitions=[partition])
    return share_fetch.ShareFetchRequest(
        group_id=m.group, member_id="m", max_bytes=1000, max_records=1, topics=[topic]
    )


def _acknowledge(m: Things) -> Request:
    return share_acknowledge.ShareAcknowledgeRequest(
        group_id=m.group, member_id="m", share_session_epoch=1
    )


DELETE = AclOperation.DELETE
MEMBER = ((G, R),)

CASES = (
    Case("ShareGroupHeartbeat", _heartbeat, 1, ((G, R), (T, D)), NO_GROUP, NO_GROUP),
    Case("a share group member's topics", _heartbeat, 1, ((T, D),), NO_TOPIC, NONE, ((G, R),)),
    Case("ShareGroupDescribe", _describe, 1, ((G, D),), NO_GROUP, NONE),
    Case("DescribeShareGroupOffsets", _describe_offsets, 1, ((G, D), (T, D)), NO_GROUP, NONE),
    Case("its topics", _describe_offsets, 1, ((T, D),), NO_TOPIC, NONE, ((G, D),)),
    Case("AlterShareGroupOffsets", _alter_offsets, 0, ((G, R), (T, R)), NO_GROUP, NO_GROUP),
    Case("the topics it alters", _alter_offsets, 0, ((T, R),), NO_TOPIC, NO_TOPIC, ((G, R),)),
    Case("DeleteShareGroupOffsets", _delete_offsets, 0, ((G, DELETE), (T, R)), NO_GROUP, NO_GROUP),
    Case(
        "the topics whose offsets it deletes",
        *(_delete_offsets, 0, ((T, R),), NO_TOPIC, NO_TOPIC, ((G, DELETE),)),
    ),
    Case("ShareAcknowledge", _acknowledge, 2, MEMBER, NO_GROUP, NO_GROUP),
    Case("ShareFetch", _fetch, 2, ((G, R), (T, R)), NO_GROUP, NO_GROUP),
    Case("InitializeShareGroupState", _initialize, 0, ACTION, NO_CLUSTER, NO_CLUSTER),
    Case("ReadShareGroupState", _read, 0, ACTION, NO_CLUSTER, NO_CLUSTER),
    Case("WriteShareGroupState", _write, 1, ACTION, NO_CLUSTER, NO_CLUSTER),
    Case("DeleteShareGroupState", _delete, 0, ACTION, NO_CLUSTER, NO_CLUSTER),
    Case("ReadShareGroupStateSummary", _summary, 1, ACTION, NO_CLUSTER, NO_CLUSTER),
    Case("FindCoordinator of a share partition", _find, 6, ACTION, NO_CLUSTER, NO_CLUSTER),
)
