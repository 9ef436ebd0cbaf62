"""What the APIs of groups and transactions need; see ``authorization_cases``."""

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
from compat_tests.kafka_version import VERSION
from kwire.metadata.acls import AclOperation
from kwire.protocol.messages import add_offsets_to_txn as add_offsets
from kwire.protocol.messages import add_partitions_to_txn as add_partitions
from kwire.protocol.messages import consumer_group_describe as describe_consumers
from kwire.protocol.messages import consumer_group_heartbeat as consumer_heartbeat
from kwire.protocol.messages import (
    delete_groups,
    describe_groups,
    describe_transactions,
    end_txn,
    find_coordinator,
    heartbeat,
    init_producer_id,
    join_group,
    leave_group,
    offset_commit,
    offset_delete,
    offset_fetch,
    sync_group,
    txn_offset_commit,
    write_txn_markers,
)

DELETE, ACTION = AclOperation.DELETE, AclOperation.CLUSTER_ACTION


def _join(m: Things) -> join_group.JoinGroupRequest:
    protocol = join_group.JoinGroupRequestProtocol(name="range", metadata=b"")
    return join_group.JoinGroupRequest(
        group_id=m.group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[protocol],
    )


def _leave(m: Things) -> leave_group.LeaveGroupRequest:
    members = [leave_group.MemberIdentity(member_id="nobody")]
    return leave_group.LeaveGroupRequest(group_id=m.group, members=members)


def _consume(m: Things) -> consumer_heartbeat.ConsumerGroupHeartbeatRequest:
    return consumer_heartbeat.ConsumerGroupHeartbeatRequest(
        group_id=m.group,
        member_id="VDdqRwIyRk6fPpCwVHJwmQ",
        member_epoch=0,
        rebalance_timeout_ms=10_000,
        subscribed_topic_names=[m.topic],
        topic_partitions=[],
    )


def _commit(m: Things) -> offset_commit.OffsetCommitRequest:
    one = offset_commit.OffsetCommitRequestPartition(committed_metadata="")
    topics = [
        offset_commit.OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=[one])
        for name, topic_id in ((m.topic, m.topic_id), (m.missing, bytes(15) + b"\7"))
    ]
    return offset_commit.OffsetCommitRequest(group_id=m.group, topics=topics)


def _offsets(m: Things) -> offset_fetch.OffsetFetchRequest:
    """For versions with one group and for those with several."""
    topics = [
        offset_fetch.OffsetFetchRequestTopics(
            name=m.topic, topic_id=m.topic_id, partition_indexes=[0]
        )
    ]
    single = [offset_fetch.OffsetFetchRequestTopic(name=m.topic, partition_indexes=[0])]
    group = offset_fetch.OffsetFetchRequestGroup(group_id=m.group, topics=topics)
    return offset_fetch.OffsetFetchRequest(group_id=m.group, topics=single, groups=[group])


def _forget(m: Things) -> offset_delete.OffsetDeleteRequest:
    one = offset_delete.OffsetDeleteRequestPartition(partition_index=0)
    topic = offset_delete.OffsetDeleteRequestTopic(name=m.topic, partitions=[one])
    return offset_delete.OffsetDeleteRequest(group_id=m.group, topics=[topic])


def _find(m: Things, *, transaction: bool = False) -> find_coordinator.FindCoordinatorRequest:
    key = m.transactional_id if transaction else m.group
    return find_coordinator.FindCoordinatorRequest(
        key=key, coordinator_keys=[key], key_type=int(transaction)
    )


def _init(m: Things) -> init_producer_id.InitProducerIdRequest:
    return init_producer_id.InitProducerIdRequest(
        transactional_id=m.transactional_id, transaction_timeout_ms=10_000
    )


def _number(_: Things) -> init_producer_id.InitProducerIdRequest:
    return init_producer_id.InitProducerIdRequest(
        transactional_id=None, transaction_timeout_ms=10_000
    )


def _add(m: Things) -> add_partitions.AddPartitionsToTxnRequest:
    topics = [add_partitions.AddPartitionsToTxnTopic(name=m.topic, partitions=[0])]
    verified = add_partitions.AddPartitionsToTxnTransaction(
        transactional_id=m.transactional_id, producer_id=1, verify_only=True, topics=topics
    )
    return add_partitions.AddPartitionsToTxnRequest(
        transactions=[verified],
        v3_and_below_transactional_id=m.transactional_id,
        v3_and_below_producer_id=1,
        v3_and_below_topics=topics,
    )


def _add_offsets(m: Things) -> add_offsets.AddOffsetsToTxnRequest:
    return add_offsets.AddOffsetsToTxnRequest(
        transactional_id=m.transactional_id, producer_id=1, group_id=m.group
    )


def _end(m: Things) -> end_txn.EndTxnRequest:
    return end_txn.EndTxnRequest(transactional_id=m.transactional_id, producer_id=1)


def _mark(m: Things) -> write_txn_markers.WriteTxnMarkersRequest:
    topic = write_txn_markers.WritableTxnMarkerTopic(name=m.missing, partition_indexes=[0])
    marker = write_txn_markers.WritableTxnMarker(producer_id=1, topics=[topic])
    return write_txn_markers.WriteTxnMarkersRequest(markers=[marker])


def _commit_in(m: Things) -> txn_offset_commit.TxnOffsetCommitRequest:
    one = txn_offset_commit.TxnOffsetCommitRequestPartition(committed_metadata="")
    topic = txn_offset_commit.TxnOffsetCommitRequestTopic(
        name=m.topic, topic_id=m.topic_id, partitions=[one]
    )
    return txn_offset_commit.TxnOffsetCommitRequest(
        transactional_id=m.transactional_id, group_id=m.group, producer_id=1, topics=[topic]
    )


TOPIC_IDS_IN_TRANSACTIONS = () if VERSION == "4.3.1" else (6,)
"""The version of TxnOffsetCommit that Apache Kafka has since 4.4."""

CASES = (
    Case("JoinGroup", _join, 9, ((G, R),), NO_GROUP, NO_GROUP),
    Case("JoinGroup v3", _join, 3, ((G, R),), NO_GROUP, NO_GROUP),
    Case(
        "SyncGroup",
        lambda m: sync_group.SyncGroupRequest(
            group_id=m.group, member_id="nobody", protocol_type="consumer", protocol_name="range"
        ),
        *(5, ((G, R),), NO_GROUP, NO_GROUP),
    ),
    Case(
        "Heartbeat",
        lambda m: heartbeat.HeartbeatRequest(group_id=m.group, member_id="nobody"),
        *(4, ((G, R),), NO_GROUP, NO_GROUP),
    ),
    Case("LeaveGroup", _leave, 5, ((G, R),), NO_GROUP, NO_GROUP),
    Case("ConsumerGroupHeartbeat", _consume, 1, ((G, R), (T, D)), NO_GROUP, NO_GROUP),
    Case("its topics", _consume, 1, ((T, D),), NO_TOPIC, NONE, ((G, R),)),
    Case(
        "DescribeGroups",
        lambda m: describe_groups.DescribeGroupsRequest(groups=[m.group, m.group]),
        *(6, ((G, D),), NO_GROUP, NONE),
    ),
    Case(
        "ConsumerGroupDescribe",
        lambda m: describe_consumers.ConsumerGroupDescribeRequest(group_ids=[m.group]),
        *(1, ((G, D),), NO_GROUP, NONE),
    ),
    Case(
        "DeleteGroups",
        lambda m: delete_groups.DeleteGroupsRequest(groups_names=[m.group]),
        *(2, ((G, DELETE),), NO_GROUP, NO_GROUP),
    ),
    Case("FindCoordinator of a group", _find, 6, ((G, D),), NO_GROUP, NONE),
    Case("FindCoordinator v3", _find, 3, ((G, D),), NO_GROUP, NONE),
    Case(
        "FindCoordinator of a transactional id",
        lambda m: _find(m, transaction=True),
        *(6, ((X, D),), NO_ID, NONE),
    ),
    Case("OffsetCommit", _commit, 8, ((G, R), (T, R)), NO_GROUP, NO_GROUP),
    Case("its topics", _commit, 8, ((T, R),), NO_TOPIC, NO_TOPIC, ((G, R),)),
    Case("its topics by id", _commit, 10, ((T, R),), NO_TOPIC, NO_TOPIC, ((G, R),)),
    Case("OffsetFetch v5", _offsets, 5, ((G, D), (T, D)), NO_GROUP, NONE),
    Case("OffsetFetch", _offsets, 9, ((G, D), (T, D)), NO_GROUP, NONE),
    Case("its topics v5", _offsets, 5, ((T, D),), NO_TOPIC, NONE, ((G, D),)),
    Case("its topics", _offsets, 9, ((T, D),), NO_TOPIC, NONE, ((G, D),)),
    Case("its topics by id", _offsets, 10, ((T, D),), NO_TOPIC, NONE, ((G, D),)),
    Case("OffsetDelete", _forget, 0, ((G, DELETE), (T, R)), NO_GROUP, NO_GROUP),
    Case("InitProducerId", _init, 5, ((X, W),), NO_ID, NO_ID),
    Case(
        "InitProducerId without an id",
        *(_number, 5, ((C, AclOperation.IDEMPOTENT_WRITE),), NO_CLUSTER, NO_CLUSTER),
    ),
    Case("AddPartitionsToTxn", _add, 3, ((X, W), (T, W)), NO_ID, NO_ID),
    Case("its topics", _add, 3, ((T, W),), NO_TOPIC, NO_TOPIC, ((X, W),)),
    Case("AddPartitionsToTxn of a broker", _add, 5, ((C, ACTION),), NO_CLUSTER, NO_CLUSTER),
    Case("AddOffsetsToTxn", _add_offsets, 4, ((X, W), (G, R)), NO_ID, NO_ID),
    Case("its group", _add_offsets, 4, ((G, R),), NO_GROUP, NO_GROUP, ((X, W),)),
    Case("EndTxn", _end, 4, ((X, W),), NO_ID, NO_ID),
    Case("WriteTxnMarkers", _mark, 1, ((C, ACTION),), NO_CLUSTER, NO_CLUSTER),
    Case(
        "WriteTxnMarkers by an admin",
        *(_mark, 1, ((C, AclOperation.ALTER),), NO_CLUSTER, NO_CLUSTER),
    ),
    Case("TxnOffsetCommit", _commit_in, 3, ((X, W), (G, R), (T, R)), NO_ID, NO_ID),
    Case("its group", _commit_in, 3, ((G, R), (T, R)), NO_GROUP, NO_GROUP, ((X, W),)),
    Case("its topics", _commit_in, 3, ((T, R),), NO_TOPIC, NO_TOPIC, ((X, W), (G, R))),
    *(
        Case(
            "its topics by id", _commit_in, version, ((T, R),), NO_TOPIC, NO_TOPIC, ((X, W), (G, R))
        )
        for version in TOPIC_IDS_IN_TRANSACTIONS
    ),
    Case(
        "DescribeTransactions",
        lambda m: describe_transactions.DescribeTransactionsRequest(
            transactional_ids=[m.transactional_id]
        ),
        *(0, ((X, D),), NO_ID, NONE),
    ),
)
