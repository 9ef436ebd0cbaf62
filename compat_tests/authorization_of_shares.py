"""What the APIs of share groups' states need: they are for brokers; see ``authorization_cases``."""

from compat_tests.authorization_cases import NO_CLUSTER, C, Case, Things
from kwire.metadata.acls import AclOperation
from kwire.protocol.messages import (
    delete_share_group_state,
    find_coordinator,
    initialize_share_group_state,
    read_share_group_state,
    read_share_group_state_summary,
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


CASES = (
    Case("InitializeShareGroupState", _initialize, 0, ACTION, NO_CLUSTER, NO_CLUSTER),
    Case("ReadShareGroupState", _read, 0, ACTION, NO_CLUSTER, NO_CLUSTER),
    Case("WriteShareGroupState", _write, 1, ACTION, NO_CLUSTER, NO_CLUSTER),
    Case("DeleteShareGroupState", _delete, 0, ACTION, NO_CLUSTER, NO_CLUSTER),
    Case("ReadShareGroupStateSummary", _summary, 1, ACTION, NO_CLUSTER, NO_CLUSTER),
    Case("FindCoordinator of a share partition", _find, 6, ACTION, NO_CLUSTER, NO_CLUSTER),
)
