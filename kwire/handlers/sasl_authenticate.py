"""SaslAuthenticate: one message of a login, in the mechanism that SaslHandshake chose.

Behavior: a login that fails is answered after ``connection.failed.authentication.delay.ms``, then
the connection ends. The response doesn't contain the reason; the log does. The last response says
how long the session lasts (KIP-368).
"""

import trio

from kwire.broker.delayed import Delayed
from kwire.errors import ErrorCode
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import everybody
from kwire.handlers.lib.slices import give_way
from kwire.handlers.lib.waiting import happens
from kwire.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kwire.security.sasl import LoginRefused

RIGHTS = (everybody("it says who the client is"),)


async def handle(
    request: SaslAuthenticateRequest, context: RequestContext
) -> SaslAuthenticateResponse:
    """Continue a login."""
    login, broker = context.connection.login, context.broker
    if login is None or not login.is_begun:
        text = "SaslAuthenticate request received after successful authentication"
        return SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=text)
    await give_way(context.work)
    now_s = trio.current_time()
    try:
        answer, session_ms = login.step(request.auth_bytes, broker.clock.now_ms(), now_s)
    except LoginRefused as refused:
        delay_ms = broker.integer("connection.failed.authentication.delay.ms")
        await happens(Delayed(now_s + delay_ms / 1000))
        return SaslAuthenticateResponse(
            error_code=ErrorCode.SASL_AUTHENTICATION_FAILED, error_message=refused.told
        )
    return SaslAuthenticateResponse(
        error_message=None, auth_bytes=answer, session_lifetime_ms=session_ms
    )
