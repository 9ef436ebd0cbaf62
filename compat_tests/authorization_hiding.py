"""What responses leave out, and what else a table of errors doesn't show; on both brokers."""

from collections.abc import Callable
from typing import Any

from compat_tests.authorization_cases import (
    AUTHORIZATION,
    Admin,
    C,
    Client,
    D,
    G,
    R,
    T,
    Things,
    W,
    X,
    codes,
)
from compat_tests.authorization_of_topics import produce_request
from kwire.errors import ErrorCode
from kwire.metadata.acls import AclOperation, PatternType, Permission
from kwire.protocol.messages import (
    alter_partition_reassignments,
    create_topics,
    delete_topics,
    describe_cluster,
    describe_groups,
    describe_topic_partitions,
    describe_user_scram_credentials,
    init_producer_id,
    list_groups,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_fetch,
)
from kwire.protocol.types import ZERO_UUID

FAILED = ErrorCode.TOPIC_AUTHORIZATION_FAILED

Look = Callable[[], Any]
Check = Callable[[Admin, Client, int], None]


def _soon(look: Look, expected: Any, tries: int) -> None:
    """What a look finds, at the latest after some tries."""
    found = look()
    for _ in range(tries - 1):
        if found != expected:
            found = look()
    assert found == expected


def _bits(*operations: AclOperation) -> int:
    return sum(1 << operation for operation in operations)


def all_topics(admin: Admin, client: Client, tries: int) -> None:
    """Metadata of all topics has those with DESCRIBE, and says what the client may do to them."""
    seen, _ = admin.things(), admin.things()
    client.allow(seen, (T, R))

    def look() -> Any:
        asked = metadata.MetadataRequest(topics=None, include_topic_authorized_operations=True)
        return [
            (topic.name, topic.topic_authorized_operations)
            for topic in client.ask(asked, 12).topics
        ]

    _soon(look, [(seen.topic, _bits(R, D))], tries)


def pages(admin: Admin, client: Client, tries: int) -> None:
    """DescribeTopicPartitions of all topics has those with DESCRIBE, one a page if asked so."""
    two = sorted([admin.things(), admin.things()])
    admin.things()
    for one in two:
        client.allow(one, (T, D))
    asked = describe_topic_partitions.DescribeTopicPartitionsRequest(response_partition_limit=1)

    def look() -> Any:
        first = client.ask(asked, 0)
        cursor = first.next_cursor and first.next_cursor.topic_name
        return [topic.name for topic in first.topics], cursor

    _soon(look, ([two[0].topic], two[1].topic), tries)


def cluster_operations(admin: Admin, client: Client, tries: int) -> None:
    """What a client may do to the cluster is nothing, until it may describe it."""
    asked = describe_cluster.DescribeClusterRequest(include_cluster_authorized_operations=True)
    whole = metadata.MetadataRequest(topics=[], include_cluster_authorized_operations=True)

    def look() -> Any:
        return (
            client.ask(asked, 0).cluster_authorized_operations,
            client.ask(whole, 9).cluster_authorized_operations,
        )

    _soon(look, (0, 0), tries)
    client.allow(admin.things(), (C, AclOperation.ALTER))
    bits = _bits(AclOperation.ALTER, D)
    _soon(look, (bits, bits), tries)


def groups(admin: Admin, client: Client, tries: int) -> None:
    """ListGroups has the groups with DESCRIBE, DescribeGroups says what the client may do."""
    seen, hidden = admin.things(), admin.things()
    for one in (seen, hidden):
        _commit(admin, one, one)
    client.allow(seen, (G, AclOperation.DELETE))
    asked = describe_groups.DescribeGroupsRequest(
        groups=[seen.group], include_authorized_operations=True
    )

    def look() -> Any:
        listed = client.ask(list_groups.ListGroupsRequest(), 4).groups
        [described] = client.ask(asked, 5).groups
        return [group.group_id for group in listed], described.authorized_operations

    _soon(look, ([seen.group], _bits(AclOperation.DELETE, D)), tries)


def _commit(admin: Admin, group: Things, topic: Things) -> None:
    one = offset_commit.OffsetCommitRequestPartition(committed_offset=3, committed_metadata="")
    wanted = offset_commit.OffsetCommitRequestTopic(name=topic.topic, partitions=[one])
    request = offset_commit.OffsetCommitRequest(group_id=group.group, topics=[wanted])
    while any(codes(admin.ask(request, 8))):
        admin.find_coordinator(group.group)


def all_offsets(admin: Admin, client: Client, tries: int) -> None:
    """OffsetFetch of all topics has those with DESCRIBE."""
    seen, hidden = admin.things(), admin.things()
    for one in (seen, hidden):
        _commit(admin, seen, one)
    client.allow(seen, (G, D), (T, D))
    group = offset_fetch.OffsetFetchRequestGroup(group_id=seen.group, topics=None)
    many = offset_fetch.OffsetFetchRequest(groups=[group])
    single = offset_fetch.OffsetFetchRequest(group_id=seen.group, topics=None)

    def look() -> Any:
        [answer] = client.ask(many, 9).groups
        alone = client.ask(single, 5)
        return [[topic.name for topic in found.topics] for found in (answer, alone)]

    _soon(look, [[seen.topic], [seen.topic]], tries)


def transactions(admin: Admin, client: Client, tries: int) -> None:
    """ListTransactions has the transactional ids with DESCRIBE."""
    seen, hidden = admin.things(), admin.things()
    for one in (seen, hidden):
        request = init_producer_id.InitProducerIdRequest(
            transactional_id=one.transactional_id, transaction_timeout_ms=10_000
        )
        while admin.ask(request, 4).error_code:
            admin.find_coordinator(one.transactional_id, key_type=1)
    client.allow(seen, (X, D))

    def look() -> Any:
        found = client.ask(list_transactions.ListTransactionsRequest(), 1).transaction_states
        return [state.transactional_id for state in found]

    _soon(look, [seen.transactional_id], tries)


def configs_of_a_new_topic(admin: Admin, client: Client, tries: int) -> None:
    """CreateTopics tells the configs only with DESCRIBE_CONFIGS."""
    things = admin.things()
    client.allow(things, (T, AclOperation.CREATE))
    new = create_topics.CreatableTopic(name=things.missing, num_partitions=1, replication_factor=1)
    asked = create_topics.CreateTopicsRequest(topics=[new], validate_only=True)

    def look() -> Any:
        [topic] = client.ask(asked, 7).topics
        shown = topic.num_partitions, topic.replication_factor, bool(topic.configs)
        return topic.error_code, topic.topic_config_error_code, *shown

    _soon(look, (0, FAILED, -1, -1, False), tries)
    client.allow(things, (T, AclOperation.DESCRIBE_CONFIGS))
    _soon(look, (0, 0, 1, 1, True), tries)


def a_name_behind_an_id(admin: Admin, client: Client, tries: int) -> None:
    """An id doesn't lead to the name of a topic that the client may not describe."""
    things = admin.things()
    asked = metadata.MetadataRequest(
        topics=[metadata.MetadataRequestTopic(topic_id=things.topic_id, name=None)]
    )
    deletion = delete_topics.DeleteTopicsRequest(
        topics=[delete_topics.DeleteTopicState(topic_id=things.topic_id)], timeout_ms=5000
    )

    def look() -> Any:
        [topic] = client.ask(asked, 12).topics
        [result] = client.ask(deletion, 6).responses
        shown = (topic.error_code, topic.name, topic.topic_id)
        return shown, (result.error_code, result.name, result.topic_id)

    hidden = FAILED, None, things.topic_id
    _soon(look, (hidden, hidden), tries)
    client.allow(things, (T, D))
    _soon(lambda: look()[1], (FAILED, things.topic, things.topic_id), tries)


def a_name_that_nobody_has(admin: Admin, client: Client, tries: int) -> None:
    """A topic that the client may not describe looks the same whether it exists or not."""
    things = admin.things()
    names = [things.topic, things.missing]
    topics = [metadata.MetadataRequestTopic(name=name) for name in names]
    asked = metadata.MetadataRequest(topics=topics)

    def look() -> Any:
        return sorted(
            (names.index(topic.name), topic.error_code, topic.topic_id, len(topic.partitions))
            for topic in client.ask(asked, 12).topics
        )

    _soon(look, [(0, FAILED, ZERO_UUID, 0), (1, FAILED, ZERO_UUID, 0)], tries)


def records_of_a_transaction_without_its_id(admin: Admin, client: Client, tries: int) -> None:
    """Who leaves the transactional id out writes no records of a transaction."""
    things = admin.things()
    client.allow(things, (T, W), (X, W))
    request = produce_request(things, transactional=True)
    request.transactional_id = None

    def look() -> Any:
        return set(codes(client.ask(request, 12))) & AUTHORIZATION

    _soon(look, {ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED}, tries)


def a_prefix(admin: Admin, client: Client, tries: int) -> None:
    """An ACL of a prefix allows, one of a literal name denies in spite of it."""
    things = admin.things()
    one = list_offsets.ListOffsetsPartition(timestamp=-1)
    topic = list_offsets.ListOffsetsTopic(name=things.topic, partitions=[one])
    asked = list_offsets.ListOffsetsRequest(replica_id=-1, topics=[topic])

    def look() -> Any:
        return set(codes(client.ask(asked, 8))) & AUTHORIZATION

    _soon(look, {FAILED}, tries)
    rights = [(T, things.topic[:-2], D)]
    admin.allow(client.host, rights, pattern=PatternType.PREFIXED)
    _soon(look, set(), tries)
    admin.allow(client.host, [(T, things.topic, D)], permission=Permission.DENY)
    _soon(look, {FAILED}, tries)


def every_move_that_is_refused(admin: Admin, client: Client, tries: int) -> None:
    """Each partition has the error of the request: Java's Admin looks for it there."""
    names = [admin.things().topic, admin.things().missing]
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    moves = [alter_partition_reassignments.ReassignablePartition(partition_index=i) for i in (3, 0)]
    asked = alter_partition_reassignments.AlterPartitionReassignmentsRequest(
        topics=[
            alter_partition_reassignments.ReassignableTopic(name=name, partitions=moves)
            for name in names
        ]
    )

    def look() -> Any:
        answer = client.ask(asked, 0)
        return answer.error_code, [
            (topic.name, [(one.partition_index, one.error_code) for one in topic.partitions])
            for topic in answer.responses
        ]

    _soon(look, (code, [(name, [(3, code), (0, code)]) for name in names]), tries)


def every_move_that_is_not_shown(admin: Admin, client: Client, tries: int) -> None:
    """The answer names the partitions of the request, without a replica."""
    name, code = admin.things().topic, ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    topics = [
        list_partition_reassignments.ListPartitionReassignmentsTopics(
            name=name, partition_indexes=[1, 0]
        )
    ]
    asked = list_partition_reassignments.ListPartitionReassignmentsRequest(topics=topics)

    def look() -> Any:
        answer = client.ask(asked, 0)
        return answer.error_code, [
            (topic.name, [(one.partition_index, one.replicas) for one in topic.partitions])
            for topic in answer.topics
        ]

    _soon(look, (code, [(name, [(1, []), (0, [])])]), tries)


def every_user_that_is_not_shown(admin: Admin, client: Client, tries: int) -> None:
    """There is an error for each, but no name, as Kafka's class of the request makes them."""
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    names = [describe_user_scram_credentials.UserName(name=name) for name in ("alice", "bob")]
    asked = describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=names)

    def look() -> Any:
        answer = client.ask(asked, 0)
        return answer.error_code, [(one.user, one.error_code) for one in answer.results]

    _soon(look, (code, [("", code), ("", code)]), tries)


CHECKS = (
    *(every_move_that_is_refused, every_move_that_is_not_shown, every_user_that_is_not_shown),
    *(all_topics, pages, cluster_operations, groups, all_offsets, transactions),
    *(configs_of_a_new_topic, a_name_behind_an_id, a_name_that_nobody_has),
    *(records_of_a_transaction_without_its_id, a_prefix),
)
