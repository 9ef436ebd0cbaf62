"""What the APIs of administrators need: reassignments, brokers, credentials, quotas, tokens.

Source: KafkaApis, ControllerApis of Kafka.
"""

from typing import Any

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.alter_user_scram_credentials import BYTES as REFUSAL_BYTES
from kwire.handlers.alter_user_scram_credentials import refused
from kwire.handlers.guards.cluster import needs
from kwire.handlers.guards.gate import FAILED, Gate
from kwire.handlers.waiting import later
from kwire.metadata.acls import AclOperation, ResourceType
from kwire.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
)
from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsResponse,
)
from kwire.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
)
from kwire.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kwire.protocol.messages.describe_client_quotas import DescribeClientQuotasResponse
from kwire.protocol.messages.describe_delegation_token import (
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kwire.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsResponse,
)
from kwire.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsResponse,
)
from kwire.protocol.messages.unregister_broker import UnregisterBrokerResponse

_FAILED = FAILED[ResourceType.CLUSTER]
_MESSAGE = "Cluster authorization failed."


def _no_quotas(request: AlterClientQuotasRequest) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponseEntryData(
                error_code=_FAILED,
                error_message=_MESSAGE,
                entity=[
                    EntityData(entity_type=one.entity_type, entity_name=one.entity_name)
                    for one in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


alter_partition_reassignments = needs(
    AclOperation.ALTER,
    lambda _: AlterPartitionReassignmentsResponse(error_code=_FAILED, error_message=_MESSAGE),
)
list_partition_reassignments = needs(
    AclOperation.DESCRIBE,
    lambda _: ListPartitionReassignmentsResponse(error_code=_FAILED, error_message=_MESSAGE),
)
unregister_broker = needs(
    AclOperation.ALTER,
    lambda _: UnregisterBrokerResponse(error_code=_FAILED, error_message=_MESSAGE),
)
describe_user_scram_credentials = needs(
    AclOperation.DESCRIBE,
    lambda _: DescribeUserScramCredentialsResponse(error_code=_FAILED, error_message=_MESSAGE),
)
describe_client_quotas = needs(
    AclOperation.DESCRIBE_CONFIGS,
    lambda _: DescribeClientQuotasResponse(
        error_code=_FAILED, error_message=_MESSAGE, entries=None
    ),
)
alter_client_quotas = needs(AclOperation.ALTER_CONFIGS, _no_quotas)


async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, gate: Gate
) -> AlterUserScramCredentialsResponse:
    """ALTER on the cluster."""
    if gate.may_on_cluster(AclOperation.ALTER):
        response: AlterUserScramCredentialsResponse = await gate.serve(request)
        return response
    work, error = gate.context.work, KafkaError(_FAILED, _MESSAGE)
    work.answer(REFUSAL_BYTES * (len(request.deletions) + len(request.upsertions)))
    return await later(lambda: refused(request, error, work))


async def create_delegation_token(
    request: CreateDelegationTokenRequest, gate: Gate
) -> CreateDelegationTokenResponse:
    """CREATE_TOKENS on the user, for a token of somebody else."""
    principal = gate.context.principal
    owner = f"{request.owner_principal_type}:{request.owner_principal_name}"
    is_own = not request.owner_principal_name or owner == str(principal)
    if is_own or gate.may(AclOperation.CREATE_TOKENS, ResourceType.USER, owner):
        own: CreateDelegationTokenResponse = await gate.serve(request)
        return own
    return CreateDelegationTokenResponse(
        error_code=ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
        principal_type=request.owner_principal_type or "",
        principal_name=request.owner_principal_name or "",
        token_requester_principal_type=principal.type,
        token_requester_principal_name=principal.name,
    )


async def describe_delegation_token(
    request: DescribeDelegationTokenRequest, gate: Gate
) -> DescribeDelegationTokenResponse:
    """Own tokens; DESCRIBE on another token, or DESCRIBE_TOKENS on its owner, shows it too."""
    response: DescribeDelegationTokenResponse = await gate.serve(request)
    response.tokens = [token for token in response.tokens if _is_seen(token, gate)]
    return response


def _is_seen(token: Any, gate: Gate) -> bool:
    principal = gate.context.principal
    renewers = [(one.principal_type, one.principal_name) for one in token.renewers]
    requester = token.token_requester_principal_type, token.token_requester_principal_name
    if principal in ((token.principal_type, token.principal_name), requester, *renewers):
        return True
    owner = f"{token.principal_type}:{token.principal_name}"
    return gate.may(
        AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id, tells_denied=False
    ) or gate.may(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, owner, tells_denied=False)
