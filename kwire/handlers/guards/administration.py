"""The rights for the APIs of administrators: reassignments, brokers, credentials, quotas, tokens.

Source: KafkaApis, ControllerApis of Kafka.
"""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.alter_partition_reassignments import refused as no_moves
from kwire.handlers.alter_user_scram_credentials import BYTES as REFUSAL_BYTES
from kwire.handlers.alter_user_scram_credentials import refused
from kwire.handlers.create_delegation_token import owner_of
from kwire.handlers.create_delegation_token import refused as no_token
from kwire.handlers.describe_user_scram_credentials import BYTES as SCRAM_BYTES
from kwire.handlers.guards.authorization import FAILED, Authorization
from kwire.handlers.guards.cluster import needs
from kwire.handlers.lib.slices import give_way, pieces
from kwire.handlers.lib.tokens import may_ask
from kwire.handlers.lib.waiting import later
from kwire.handlers.list_partition_reassignments import BYTES as MOVE_BYTES
from kwire.metadata.acls import AclOperation, ResourceType
from kwire.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
)
from kwire.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
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
    DescribedDelegationToken,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kwire.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
    UserName,
)
from kwire.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)
from kwire.protocol.messages.unregister_broker import UnregisterBrokerResponse
from kwire.security.principal import Principal

_FAILED = FAILED[ResourceType.CLUSTER]
_MESSAGE = "Cluster authorization failed."


async def alter_partition_reassignments(
    request: AlterPartitionReassignmentsRequest, rights: Authorization
) -> AlterPartitionReassignmentsResponse:
    """ALTER on the cluster."""
    if rights.may_on_cluster(AclOperation.ALTER):
        response: AlterPartitionReassignmentsResponse = await rights.serve(request)
        return response
    work, error = rights.context.work, KafkaError(_FAILED, _MESSAGE)
    return await later(lambda: no_moves(request, error, work))


async def list_partition_reassignments(
    request: ListPartitionReassignmentsRequest, rights: Authorization
) -> ListPartitionReassignmentsResponse:
    """DESCRIBE on the cluster."""
    if rights.may_on_cluster(AclOperation.DESCRIBE):
        response: ListPartitionReassignmentsResponse = await rights.serve(request)
        return response

    topics = request.topics or ()
    rights.context.work.answer(sum(MOVE_BYTES * len(topic.partition_indexes) for topic in topics))

    def partition(index: int) -> OngoingPartitionReassignment:
        return OngoingPartitionReassignment(partition_index=index)

    return ListPartitionReassignmentsResponse(
        error_code=_FAILED,
        error_message=_MESSAGE,
        topics=[
            OngoingTopicReassignment(
                name=topic.name,
                partitions=await rights.make_each(partition, topic.partition_indexes),
            )
            for topic in topics
        ],
    )


async def describe_user_scram_credentials(
    request: DescribeUserScramCredentialsRequest, rights: Authorization
) -> DescribeUserScramCredentialsResponse:
    """DESCRIBE on the cluster."""
    # As Kafka's, a denied answer has an element for each user of the request, and doesn't say for
    # whom it is. A client without the right who asks for all users (null) gets no answer from Kafka
    # 4.4.0, whose broker fails with a NullPointerException: the client waits until its own timeout.
    # kwire answers with the same error as for named users.
    if rights.may_on_cluster(AclOperation.DESCRIBE):
        response: DescribeUserScramCredentialsResponse = await rights.serve(request)
        return response

    rights.context.work.answer(SCRAM_BYTES * len(request.users or ()))

    def result(_: UserName) -> DescribeUserScramCredentialsResult:
        return DescribeUserScramCredentialsResult(error_code=_FAILED, error_message=_MESSAGE)

    return DescribeUserScramCredentialsResponse(
        error_code=_FAILED,
        error_message=_MESSAGE,
        results=await rights.make_each(result, request.users or ()),
    )


unregister_broker = needs(
    AclOperation.ALTER,
    lambda _: UnregisterBrokerResponse(error_code=_FAILED, error_message=_MESSAGE),
)
describe_client_quotas = needs(
    AclOperation.DESCRIBE_CONFIGS,
    lambda _: DescribeClientQuotasResponse(
        error_code=_FAILED, error_message=_MESSAGE, entries=None
    ),
)


async def alter_client_quotas(
    request: AlterClientQuotasRequest, rights: Authorization
) -> AlterClientQuotasResponse:
    """ALTER_CONFIGS on the cluster."""
    if rights.may_on_cluster(AclOperation.ALTER_CONFIGS):
        response: AlterClientQuotasResponse = await rights.serve(request)
        return response

    def part(one: EntityData) -> EntityData:
        return EntityData(entity_type=one.entity_type, entity_name=one.entity_name)

    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponseEntryData(
                error_code=_FAILED,
                error_message=_MESSAGE,
                entity=await rights.make_each(part, entry.entity),
            )
            for entry in request.entries
        ]
    )


async def alter_user_scram_credentials(
    request: AlterUserScramCredentialsRequest, rights: Authorization
) -> AlterUserScramCredentialsResponse:
    """ALTER on the cluster."""
    if rights.may_on_cluster(AclOperation.ALTER):
        response: AlterUserScramCredentialsResponse = await rights.serve(request)
        return response
    work, error = rights.context.work, KafkaError(_FAILED, _MESSAGE)
    work.answer(REFUSAL_BYTES * (len(request.deletions) + len(request.upsertions)))
    return await later(lambda: refused(request, error, work))


async def create_delegation_token(
    request: CreateDelegationTokenRequest, rights: Authorization
) -> CreateDelegationTokenResponse:
    """CREATE_TOKENS on the user, for a token of somebody else."""
    principal = rights.context.principal
    owner = owner_of(request, principal)
    if (
        owner == principal
        or not may_ask(rights.context)
        or rights.may(AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner))
    ):
        own: CreateDelegationTokenResponse = await rights.serve(request)
        return own
    return no_token(request, rights.context, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)


async def describe_delegation_token(
    request: DescribeDelegationTokenRequest, rights: Authorization
) -> DescribeDelegationTokenResponse:
    """Own tokens; DESCRIBE on another token, or DESCRIBE_TOKENS on its owner, shows it too."""
    response: DescribeDelegationTokenResponse = await rights.serve(request)
    seen: list[DescribedDelegationToken] = []
    for piece in pieces(response.tokens):
        await give_way(rights.context.work)
        seen.extend(token for token in piece if _is_seen(token, rights))
    response.tokens = seen
    return response


def _is_seen(token: DescribedDelegationToken, rights: Authorization) -> bool:
    known = rights.context.broker.image.tokens.get(token.token_id)
    if known is not None and known.concerns(rights.context.principal):
        return True
    owner = Principal(token.principal_type, token.principal_name)
    return rights.may(
        AclOperation.DESCRIBE, ResourceType.DELEGATION_TOKEN, token.token_id, tells_denied=False
    ) or rights.may(AclOperation.DESCRIBE_TOKENS, ResourceType.USER, str(owner), tells_denied=False)
