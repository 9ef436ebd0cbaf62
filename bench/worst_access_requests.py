"""The requests about logins, users, quotas and ACLs that cost most."""

from kwire.metadata.acls import AclOperation, PatternType, Permission, ResourceType
from kwire.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from kwire.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kwire.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kwire.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kwire.protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from kwire.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

ITERATIONS = 16_384
"""As many as Kafka accepts. The client spends them, so they cost a broker nothing."""


def _create_acls(count: int) -> CreateAclsRequest:
    """The same entries again cost as much, so that the cluster has room for all."""
    creations = [
        AclCreation(
            resource_type=ResourceType.TOPIC,
            resource_name=f"name-{n}",
            principal="User:alice",
            host="*",
            operation=AclOperation.READ,
            permission_type=Permission.ALLOW,
        )
        for n in range(count)
    ]
    return CreateAclsRequest(creations=creations)


def _delete_acls(count: int) -> DeleteAclsRequest:
    """Filters that look at every entry and match none."""
    filters = [
        DeleteAclsFilter(
            resource_type_filter=ResourceType.ANY,
            resource_name_filter=None,
            pattern_type_filter=PatternType.ANY,
            principal_filter=None,
            host_filter=f"host-{n}",
            operation=AclOperation.ANY,
            permission_type=Permission.ANY,
        )
        for n in range(count)
    ]
    return DeleteAclsRequest(filters=filters)


def _alter_credentials(count: int) -> AlterUserScramCredentialsRequest:
    """Half of the users have no credential to delete; the others get one."""
    users = [f"user-{n}" for n in range(count)]
    return AlterUserScramCredentialsRequest(
        deletions=[ScramCredentialDeletion(name=f"no-{user}", mechanism=1) for user in users],
        upsertions=[
            ScramCredentialUpsertion(
                name=user,
                mechanism=2,
                iterations=ITERATIONS,
                salt=b"salt",
                salted_password=bytes(64),
            )
            for user in users
        ],
    )


def _alter_quotas(count: int) -> AlterClientQuotasRequest:
    """The same values again cost as much, so that the cluster has room for all."""
    entries = [
        AlterClientQuotasRequestEntryData(
            entity=[EntityData(entity_type="user", entity_name=f"user-{n}")],
            ops=[OpData(key="producer_byte_rate", value=1000.0)],
        )
        for n in range(count)
    ]
    return AlterClientQuotasRequest(entries=entries)


WORST_OF_ACCESS = {
    "AlterClientQuotas": _alter_quotas,
    "DescribeClientQuotas": lambda count: DescribeClientQuotasRequest(
        components=[ComponentData(entity_type="user", match=f"user-{n}") for n in range(count)]
    ),
    "CreateAcls": _create_acls,
    "DeleteAcls": _delete_acls,
    "DescribeUserScramCredentials": lambda count: DescribeUserScramCredentialsRequest(
        users=[UserName(name=f"user-{n}") for n in range(count)]
    ),
    "AlterUserScramCredentials": _alter_credentials,
}
"""Requests whose cost grows with the number of their elements."""

CONSTANT_OF_ACCESS = {
    17: {"mechanism": "SCRAM-SHA-512"},
    29: {
        "resource_type_filter": ResourceType.ANY,
        "resource_name_filter": None,
        "pattern_type_filter": PatternType.ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": AclOperation.ANY,
        "permission_type": Permission.ANY,
    },
    36: {"auth_bytes": b"n,,n=user,r=nonce"},
}
"""APIs whose requests have no arrays, by key; what the request says."""
