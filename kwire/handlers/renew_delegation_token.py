"""RenewDelegationToken: a token lives on for a while, though not beyond its longest life (KIP-48).

Behavior: the owner and the renewers may do this, if they have not logged in by a token.
"""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import everybody
from kwire.handlers.lib.tokens import NO_TIME_MS, change, lifetimes, may_ask
from kwire.handlers.lib.waiting import in_task
from kwire.metadata.tokens import renewed
from kwire.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)

RIGHTS = (everybody("its handler asks for the owner and the renewers"),)


@in_task
async def handle(
    request: RenewDelegationTokenRequest, context: RequestContext
) -> RenewDelegationTokenResponse:
    """Renew a token."""
    if not may_ask(context):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return RenewDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIME_MS)
    now_ms, expiry_ms = context.broker.clock.now_ms(), lifetimes(context).expiry_ms
    asks, asked_ms = context.principal, request.renew_period_ms
    try:
        expires_ms = await change(
            request.hmac, context, lambda token: renewed(token, asks, asked_ms, now_ms, expiry_ms)
        )
    except KafkaError as error:
        return RenewDelegationTokenResponse(error_code=error.code)
    assert expires_ms is not None
    return RenewDelegationTokenResponse(expiry_timestamp_ms=expires_ms)
