"""CreateDelegationToken: makes a token with which jobs log in as its owner (KIP-48, KIP-373).

Behavior: a client may ask for a token if it has not logged in by a token itself. The owner must be
a user, because the principal of a login by token is a user with the owner's name.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import Serve, right
from kwire.handlers.lib.tokens import (
    NO_TIME_MS,
    REQUESTER_SINCE,
    lifetimes,
    may_ask,
    secret_key,
)
from kwire.handlers.lib.waiting import in_task
from kwire.metadata.acls import AclOperation, ResourceType
from kwire.metadata.changes import Change
from kwire.metadata.features import CHANGES_VERSION, TOKENS_LEVEL
from kwire.metadata.image import MetadataImage
from kwire.metadata.tokens import (
    MOST_RENEWERS,
    Name,
    TokenChanged,
    check_room,
    new_token,
    salt_of,
    secret_of,
)
from kwire.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from kwire.protocol.types import uuid_to_str
from kwire.security.principal import Principal

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization


def owner_of(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """The owner of the token that a client asks for: the client itself unless it names another."""
    if not request.owner_principal_name:
        return requester
    return Principal(request.owner_principal_type or "", request.owner_principal_name)


def refused(
    request: CreateDelegationTokenRequest, context: RequestContext, error: ErrorCode
) -> CreateDelegationTokenResponse:
    """The response to a client that may not ask for this."""
    response = _response(request, context, error)
    response.issue_timestamp_ms = NO_TIME_MS
    response.expiry_timestamp_ms = response.max_timestamp_ms = NO_TIME_MS
    return response


def _response(
    request: CreateDelegationTokenRequest, context: RequestContext, error: ErrorCode
) -> CreateDelegationTokenResponse:
    requester = context.principal
    owner = owner_of(request, requester)
    response = CreateDelegationTokenResponse(
        error_code=error, principal_type=owner.type, principal_name=owner.name
    )
    if context.api_version >= REQUESTER_SINCE:
        response.token_requester_principal_type = requester.type
        response.token_requester_principal_name = requester.name
    return response


@in_task
async def handle(
    request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse:
    """Create a token."""
    if not may_ask(context):
        return refused(request, context, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)
    try:
        return await _created(request, context)
    except KafkaError as error:
        if error.code == ErrorCode.INVALID_PRINCIPAL_TYPE:
            return refused(request, context, error.code)
        return _response(request, context, error.code)


async def _created(
    request: CreateDelegationTokenRequest, context: RequestContext
) -> CreateDelegationTokenResponse:
    renewers: list[Name] = [
        (one.principal_type, one.principal_name) for one in request.renewers[: MOST_RENEWERS + 1]
    ]
    broker, requester = context.broker, context.principal
    owner, asked_ms = owner_of(request, requester), request.max_lifetime_ms
    now_ms = broker.clock.now_ms()
    token = new_token(owner, requester, renewers, asked_ms, now_ms, lifetimes(context))
    key = secret_key(context)
    check_room(broker.image.tokens, requester)
    token_id = _new_id(context)
    secret = secret_of(key, token_id)
    salt = salt_of(key, token_id)
    credentials = await broker.threads.tokens.run(secret.credentials, salt)
    token = token._replace(digest=secret.digest, credentials=credentials)

    async def decide(image: MetadataImage) -> Sequence[Change]:
        if image.feature_level(CHANGES_VERSION) < TOKENS_LEVEL:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
        check_room(image.tokens, requester)
        return [TokenChanged(token_id, token)]

    await context.commit(decide)
    response = _response(request, context, ErrorCode.NONE)
    response.issue_timestamp_ms, response.max_timestamp_ms = token.issued_ms, token.max_ms
    response.expiry_timestamp_ms = token.expires_ms
    response.token_id, response.hmac = token_id, secret.hmac
    return response


def _new_id(context: RequestContext) -> str:
    """A new id. It never begins with a dash, because tools would read it as an option."""
    while True:
        token_id = uuid_to_str(context.broker.random.randbytes(16))
        if not token_id.startswith("-"):
            return token_id


@right("CREATE_TOKENS on the user, for a token of somebody else")
async def _create_tokens(
    request: CreateDelegationTokenRequest, rights: "Authorization", serve: Serve
) -> Any:
    context, requester = rights.context, rights.context.principal
    owner = owner_of(request, requester)
    if (
        owner == requester
        or not may_ask(context)
        or rights.may(AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner))
    ):
        return await serve(request)
    return refused(request, context, ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)


RIGHTS = (_create_tokens,)
