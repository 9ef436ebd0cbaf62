"""Why a request ends its connection: the reason as an exception."""

import logging

from kwire.broker.broker import Broker
from kwire.budget.work import AnswerTooLarge, ClientGone
from kwire.dispatch.routes import Route
from kwire.errors import KafkaError
from kwire.protocol.frame import RequestHeader
from kwire.protocol.wire import MalformedRequest

log = logging.getLogger(__name__)


class ConnectionClosed(Exception):
    """The client has closed the connection, or sent bytes that end it."""


class LoginFailed(ConnectionClosed):
    """The client's login, its certificate or its TLS handshake failed."""


def reason_of_failure(
    error: Exception, served_by: Route, header: RequestHeader, broker: Broker, peer: str
) -> ConnectionClosed:
    """A new error for an exception of a handler; an unexpected exception is a bug.

    An error that was raised from itself would be a circle, which keeps its request in memory.
    """
    if isinstance(error, ConnectionClosed):
        return type(error)(*error.args)
    if isinstance(error, MalformedRequest):
        return ConnectionClosed(f"a malformed {served_by.api.name} request: {error}")
    if isinstance(error, AnswerTooLarge):
        return ConnectionClosed(f"{served_by.api.name}: {error}")
    if isinstance(error, ClientGone):
        return ConnectionClosed()
    if isinstance(error, KafkaError):
        # Handlers raise this error where the protocol has no response for the problem.
        return ConnectionClosed(f"{served_by.api.name}: {error}")
    log.error(
        "bug in %s v%d, client %r at %s",
        served_by.api.name,
        header.api_version,
        header.client_id,
        peer,
        exc_info=error,
    )
    broker.bugs.append(error)
    return ConnectionClosed()
