"""What the APIs of administration need, beside those of topics; see ``authorization_cases``."""

from compat_tests.authorization_cases import NO_CLUSTER, NO_GROUP, NONE, C, Case, D, G, Things
from kwire.metadata.acls import AclOperation
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages import (
    add_raft_voter,
    alter_client_quotas,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    announce_member,
    api_versions,
    describe_client_quotas,
    describe_cluster,
    describe_user_scram_credentials,
    explain_group,
    explain_share_group,
    incremental_alter_configs,
    list_partition_reassignments,
    remove_raft_voter,
    unregister_broker,
    unregister_controller,
)
from kwire.protocol.types import Request

ALTER, ACTION = AclOperation.ALTER, AclOperation.CLUSTER_ACTION
CONFIGS, ALTER_CONFIGS = AclOperation.DESCRIBE_CONFIGS, AclOperation.ALTER_CONFIGS
NO_BROKER = 99


def _move(m: Things) -> Request:
    topic = alter_replica_log_dirs.AlterReplicaLogDirTopic(name=m.topic, partitions=[0])
    place = alter_replica_log_dirs.AlterReplicaLogDir(path="/no/such/directory", topics=[topic])
    return alter_replica_log_dirs.AlterReplicaLogDirsRequest(dirs=[place])


def _cancel(m: Things) -> Request:
    one = alter_partition_reassignments.ReassignablePartition(partition_index=0)
    topic = alter_partition_reassignments.ReassignableTopic(name=m.topic, partitions=[one])
    return alter_partition_reassignments.AlterPartitionReassignmentsRequest(topics=[topic])


def _limit(m: Things) -> Request:
    user = alter_client_quotas.EntityData(entity_type="user", entity_name=m.group)
    rate = alter_client_quotas.OpData(key="producer_byte_rate", value=1000.0)
    entry = alter_client_quotas.AlterClientQuotasRequestEntryData(entity=[user], ops=[rate])
    return alter_client_quotas.AlterClientQuotasRequest(entries=[entry], validate_only=True)


def _users(m: Things) -> Request:
    """With a name: Kafka doesn't answer who may not ask for all users."""
    one = describe_user_scram_credentials.UserName(name=m.group)
    return describe_user_scram_credentials.DescribeUserScramCredentialsRequest(users=[one])


def _forget_user(m: Things) -> Request:
    gone = alter_user_scram_credentials.ScramCredentialDeletion(name=m.group, mechanism=1)
    return alter_user_scram_credentials.AlterUserScramCredentialsRequest(deletions=[gone])


def _increment(_: Things) -> Request:
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=ConfigResourceType.BROKER, resource_name=""
    )
    return incremental_alter_configs.IncrementalAlterConfigsRequest(
        resources=[resource], validate_only=True
    )


CASES = (
    Case("AlterReplicaLogDirs", _move, 2, ((C, ALTER),), NO_CLUSTER, NO_CLUSTER),
    Case("AlterPartitionReassignments", _cancel, 0, ((C, ALTER),), NO_CLUSTER, NO_CLUSTER),
    Case(
        "ListPartitionReassignments",
        lambda _: list_partition_reassignments.ListPartitionReassignmentsRequest(topics=None),
        *(0, ((C, D),), NO_CLUSTER, NONE),
    ),
    Case(
        "DescribeClientQuotas",
        lambda _: describe_client_quotas.DescribeClientQuotasRequest(),
        *(1, ((C, CONFIGS),), NO_CLUSTER, NO_CLUSTER),
    ),
    Case("AlterClientQuotas", _limit, 1, ((C, ALTER_CONFIGS),), NO_CLUSTER, NO_CLUSTER),
    Case(
        "DescribeUserScramCredentials",
        *(_users, 0, ((C, D),), NO_CLUSTER, NONE),
    ),
    Case("AlterUserScramCredentials", _forget_user, 0, ((C, ALTER),), NO_CLUSTER, NO_CLUSTER),
    Case(
        "UnregisterBroker",
        lambda _: unregister_broker.UnregisterBrokerRequest(broker_id=NO_BROKER),
        *(0, ((C, ALTER),), NO_CLUSTER, NO_CLUSTER),
    ),
    Case(
        "AddRaftVoter",
        lambda _: add_raft_voter.AddRaftVoterRequest(voter_id=NO_BROKER),
        *(1, ((C, ALTER),), NO_CLUSTER, NO_CLUSTER),
    ),
    Case(
        "RemoveRaftVoter",
        lambda _: remove_raft_voter.RemoveRaftVoterRequest(voter_id=NO_BROKER),
        *(0, ((C, ALTER),), NO_CLUSTER, NO_CLUSTER),
    ),
    Case(
        "UnregisterController",
        lambda _: unregister_controller.UnregisterControllerRequest(controller_id=NO_BROKER),
        *(0, ((C, ALTER),), NO_CLUSTER, NO_CLUSTER),
    ),
    Case(
        "IncrementalAlterConfigs of the brokers",
        *(_increment, 1, ((C, ALTER_CONFIGS),), NO_CLUSTER, NO_CLUSTER),
    ),
    Case(
        "DescribeCluster",
        lambda _: describe_cluster.DescribeClusterRequest(),
        *(1, (), NONE, NONE),
    ),
    Case("ApiVersions", lambda _: api_versions.ApiVersionsRequest(), 2, (), NONE, NONE),
)

OWN_CASES = (
    Case(
        "ExplainGroup",
        lambda m: explain_group.ExplainGroupRequest(group_id=m.group),
        *(0, ((G, D),), NO_GROUP, NONE),
    ),
    Case(
        "ExplainShareGroup",
        lambda m: explain_share_group.ExplainShareGroupRequest(group_id=m.group),
        *(0, ((G, D),), NO_GROUP, NONE),
    ),
    Case(
        "AnnounceMember",
        lambda _: announce_member.AnnounceMemberRequest(),
        *(0, ((C, ACTION),), NO_CLUSTER, NO_CLUSTER),
    ),
)
"""APIs of kwire's own."""
