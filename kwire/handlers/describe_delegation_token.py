"""DescribeDelegationToken: the tokens that the client may see, with their HMACs (KIP-48).

Behavior: if the request lists owners, the response has only tokens that one of them owns, has
asked for or may renew. A null list means all tokens, and an empty list none. The guard of the API
decides which of these tokens the client may see (``kwire.handlers.guards``).
"""

from typing import TYPE_CHECKING, Any

from kwire.budget.work import Work
from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import DESCRIBE, Serve, right
from kwire.handlers.lib.slices import free_in_slices, give_way, pieces
from kwire.handlers.lib.tokens import REQUESTER_SINCE, may_ask, secret_key
from kwire.metadata.acls import AclOperation, ResourceType
from kwire.metadata.tokens import DelegationToken, Name, secret_of
from kwire.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from kwire.security.principal import Principal

if TYPE_CHECKING:
    from kwire.handlers.lib.authorization import Authorization

BYTES = 300


async def handle(
    request: DescribeDelegationTokenRequest, context: RequestContext
) -> DescribeDelegationTokenResponse:
    """Describe tokens."""
    if not may_ask(context):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return DescribeDelegationTokenResponse(error_code=code)
    try:
        key = secret_key(context)
    except KafkaError as error:
        return DescribeDelegationTokenResponse(error_code=error.code)
    work, response = context.work, DescribeDelegationTokenResponse()
    owners: set[Name] | None = None
    if request.owners is not None:
        owners = await _names_of(request.owners, work)
    if owners is not None and not owners:
        return response
    for piece in pieces(list(context.broker.image.tokens.items())):
        await give_way(work)
        for token_id, token in piece:
            if owners is not None and owners.isdisjoint(_names(token)):
                continue
            await give_way(work)
            work.answer(BYTES)
            response.tokens.append(_described(token_id, token, key, context.api_version))
    return response


async def _names_of(owners: list[DescribeDelegationTokenOwner], work: Work) -> set[Name]:
    names: set[Name] = set()
    for piece in pieces(owners):
        await give_way(work)
        names.update((one.principal_type, one.principal_name) for one in piece)
    free_in_slices(names, work)
    return names


def _names(token: DelegationToken) -> tuple[Name, ...]:
    """The principals by which a client that lists owners finds this token."""
    return token.owner, token.requester, *token.renewers


def _described(
    token_id: str, token: DelegationToken, key: str, api_version: int
) -> DescribedDelegationToken:
    described = DescribedDelegationToken(
        principal_type=token.owner[0],
        principal_name=token.owner[1],
        issue_timestamp=token.issued_ms,
        expiry_timestamp=token.expires_ms,
        max_timestamp=token.max_ms,
        token_id=token_id,
        hmac=secret_of(key, token_id).hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=kind, principal_name=name)
            for kind, name in token.renewers
        ],
    )
    if api_version >= REQUESTER_SINCE:
        described.token_requester_principal_type = token.requester[0]
        described.token_requester_principal_name = token.requester[1]
    return described


@right("own tokens; DESCRIBE on another token, or DESCRIBE_TOKENS on its owner, shows it too")
async def _describe_each(
    request: DescribeDelegationTokenRequest, rights: "Authorization", serve: Serve
) -> Any:
    response: DescribeDelegationTokenResponse = await serve(request)
    response.tokens, _ = await rights.split(lambda token: _is_seen(token, rights), response.tokens)
    return response


def _is_seen(token: DescribedDelegationToken, rights: "Authorization") -> bool:
    known = rights.context.broker.image.tokens.get(token.token_id)
    if known is not None and known.concerns(rights.context.principal):
        return True
    owner = str(Principal(token.principal_type, token.principal_name))
    kind, of_tokens = ResourceType.DELEGATION_TOKEN, AclOperation.DESCRIBE_TOKENS
    return rights.may(DESCRIBE, kind, token.token_id, tells_denied=False) or rights.may(
        of_tokens, ResourceType.USER, owner, tells_denied=False
    )


RIGHTS = (_describe_each,)
