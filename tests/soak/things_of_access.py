"""What a client can make for logins, rights and quotas, in addition to ``things``.

``n`` is in every name, so that what is kept by name shows as growth.
"""

from kwire.config.authorizer import STANDARD_AUTHORIZER
from kwire.errors import ErrorCode
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
from kwire.protocol.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
)
from kwire.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest
from kwire.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
from kwire.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from tests.soak.things import DELETE, LASTING, SET, ask, produce

SUPER_USER, DENIED_USER = "admin", "eve"
SETTINGS = {
    "listeners": "LOGIN://127.0.0.1:0",
    "listener.security.protocol.map": "LOGIN:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.login.plain.sasl.jaas.config": "x.PlainLoginModule required "
    f'user_{SUPER_USER}="hush" user_{DENIED_USER}="hush";',
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "super.users": f"User:{SUPER_USER}",
    "delegation.token.secret.key": "the-secret-key",
}
"""Settings of a broker with logins, ACLs and delegation tokens."""

CLIENT_METRICS = 16
SHA_512 = 2


async def log_in(client, user):
    """Log in by a password."""
    await ask(client, SaslHandshakeRequest(mechanism="PLAIN"), 1)
    message = f"\0{user}\0hush".encode()
    await ask(client, SaslAuthenticateRequest(auth_bytes=message), 2)


async def acls(client, n):
    """ACLs of a user, a topic and a prefix, which are deleted by a filter."""
    creations = [
        AclCreation(
            resource_type=ResourceType.TOPIC,
            resource_name=f"acl-{n}",
            resource_pattern_type=pattern,
            principal=f"User:acl-{n}",
            host="*",
            operation=AclOperation.READ,
            permission_type=Permission.ALLOW,
        )
        for pattern in (PatternType.LITERAL, PatternType.PREFIXED)
    ]
    await ask(client, CreateAclsRequest(creations=creations), 3)
    doomed = DeleteAclsFilter(
        resource_type_filter=ResourceType.ANY,
        resource_name_filter=None,
        pattern_type_filter=PatternType.ANY,
        principal_filter=f"User:acl-{n}",
        host_filter=None,
        operation=AclOperation.ANY,
        permission_type=Permission.ANY,
    )
    answer = await ask(client, DeleteAclsRequest(filters=[doomed]), 3)
    assert len(answer.filter_results[0].matching_acls) == len(creations)


async def scram_users(client, n):
    """A user with a SCRAM password, which is deleted."""
    user = {"name": f"scram-{n}", "mechanism": SHA_512}
    made = ScramCredentialUpsertion(
        **user, iterations=4096, salt=b"salt", salted_password=bytes(64)
    )
    await ask(client, AlterUserScramCredentialsRequest(deletions=[], upsertions=[made]), 0)
    gone = ScramCredentialDeletion(**user)
    await ask(client, AlterUserScramCredentialsRequest(deletions=[gone], upsertions=[]), 0)


async def tokens(client, n):
    """Delegation tokens: one is ended by its owner, one runs out."""
    renewer = CreatableRenewers(principal_type="User", principal_name=f"renewer-{n}")
    for is_ended in (True, False):
        request = CreateDelegationTokenRequest(renewers=[renewer], max_lifetime_ms=-1)
        token = await ask(client, request, 3)
        if is_ended:
            await ask(client, ExpireDelegationTokenRequest(hmac=token.hmac), 2)


async def quotas(client, n):
    """A quota of the client's id, which it uses, and one of a user; both are removed."""
    entities = [("client-id", f"client-{n}"), ("user", f"quota-{n}")]
    for is_removed in (False, True):
        entries = [
            AlterClientQuotasRequestEntryData(
                entity=[EntityData(entity_type=kind, entity_name=name)],
                ops=[OpData(key="producer_byte_rate", value=1e9, remove=is_removed)],
            )
            for kind, name in entities
        ]
        await ask(client, AlterClientQuotasRequest(entries=entries), 1)
        await produce(client, LASTING, 2, 2 * 10**9 + 2 * n + is_removed)


async def client_metrics(client, n):
    """A subscription, and a client that asks for its subscriptions."""
    for operation in (SET, DELETE):
        change = AlterableConfig(name="metrics", config_operation=operation, value=f"metric.{n}")
        resource = AlterConfigsResource(
            resource_type=CLIENT_METRICS, resource_name=f"subscription-{n}", configs=[change]
        )
        await ask(client, IncrementalAlterConfigsRequest(resources=[resource]), 1)
    await ask(client, GetTelemetrySubscriptionsRequest(client_instance_id=n.to_bytes(16)), 0)


async def denied(client, n):
    """A user without rights, who is denied topics and groups that nobody knows."""
    missing = MetadataRequest(
        topics=[MetadataRequestTopic(name=f"denied-{n}")], allow_auto_topic_creation=False
    )
    await ask(client, missing, 12, ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    groups = DescribeGroupsRequest(groups=[f"denied-{n}"])
    await ask(client, groups, 5, ErrorCode.GROUP_AUTHORIZATION_FAILED)


ALL = (acls, scram_users, tokens, quotas, client_metrics)
"""What the super user makes; ``denied`` is for the other user."""
