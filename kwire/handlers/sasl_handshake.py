"""SaslHandshake: chooses the mechanism of a login.

Behavior: ILLEGAL_SASL_STATE on a listener without SASL, in the middle of a login, and less than a
second after the last login. A mechanism that isn't enabled ends the connection after the response.

Skipped: version 0 is answered, but the messages without headers that follow it in old clients
(from before Kafka 1.0) are not understood.
"""

import trio

from kwire.errors import ErrorCode
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import everybody
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.security.sasl import LoginRefused

RIGHTS = (everybody("it says who the client is"),)


def handle(request: SaslHandshakeRequest, context: RequestContext) -> SaslHandshakeResponse:
    """Begin a login."""
    login = context.connection.login
    if login is None:
        return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
    response = SaslHandshakeResponse(mechanisms=login.mechanisms)
    try:
        if not login.start_exchange(request.mechanism, trio.current_time()):
            response.error_code = ErrorCode.ILLEGAL_SASL_STATE
    except LoginRefused:
        response.error_code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
    return response
