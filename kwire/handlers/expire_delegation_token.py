"""ExpireDelegationToken: a token expires sooner or later than planned, or at once (KIP-48).

Behavior: the owner and the renewers may do this, if they have not logged in by a token. A negative
period removes the token. Connections that have logged in with it stay until their session ends.
"""

from kwire.errors import ErrorCode, KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import everybody
from kwire.handlers.lib.tokens import NO_TIME_MS, change, may_ask
from kwire.handlers.lib.waiting import in_task
from kwire.metadata.tokens import expiring
from kwire.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

RIGHTS = (everybody("its handler asks for the owner and the renewers"),)


@in_task
async def handle(
    request: ExpireDelegationTokenRequest, context: RequestContext
) -> ExpireDelegationTokenResponse:
    """Change the expiry of a token."""
    if not may_ask(context):
        code = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
        return ExpireDelegationTokenResponse(error_code=code, expiry_timestamp_ms=NO_TIME_MS)
    now_ms, asks = context.broker.clock.now_ms(), context.principal
    period_ms = request.expiry_time_period_ms
    try:
        expires_ms = await change(
            request.hmac, context, lambda token: expiring(token, asks, period_ms, now_ms)
        )
    except KafkaError as error:
        return ExpireDelegationTokenResponse(error_code=error.code)
    return ExpireDelegationTokenResponse(
        expiry_timestamp_ms=now_ms if expires_ms is None else expires_ms
    )
