"""Requests of the page to the broker's own handlers, in the broker's event loop.

So the page has the limits, checks and errors of every client. A request waits for its slices of the
event loop as a client's request does.
"""

from inspect import isawaitable
from typing import Any

from kwire.budget.work import Work
from kwire.dispatch.routes import route
from kwire.handlers.lib.context import ConnectionInfo, RequestContext
from kwire.handlers.lib.waiting import Unfinished
from kwire.protocol.types import Request
from kwire.security.principal import Principal
from kwire.web.cross_loop_calls import Observed

CLIENT_ID = "kwire-http"

PRINCIPAL = Principal("HTTP", "anonymous")
"""The principal of the page's requests for an authorizer: no login gives this type."""
MAX_ANSWER_BYTES = 8 * 1024 * 1024
"""The largest response, by the handler's own estimate; AnswerTooLarge beyond it."""

_CONNECTION_ID = 0
"""Connections of Kafka's clients count from 1."""


def _never() -> bool:
    return False


async def ask_broker(
    observed: Observed, request: Request, version: int, peer_host: str = "127.0.0.1"
) -> Any:
    """The response to a request that never waits for a change, like a fetch without a minimum.

    ``peer_host`` is the address of the HTTP client. Raises AnswerTooLarge.
    """
    broker = observed.broker
    work = Work(observed.poller.turns, _never, MAX_ANSWER_BYTES)
    listener = broker.config.listeners()[0].name
    connection = ConnectionInfo(_CONNECTION_ID, listener, peer_host, 0, peer_host, 0, PRINCIPAL)
    context = RequestContext(broker, connection, version, CLIENT_ID, work)
    work.begin_request()
    try:
        served_by = route(request.API_KEY, version)
        handle = served_by.handle if broker.authorizer is None else served_by.serve_authorized
        answer = handle(request, context)
        if isinstance(answer, Unfinished):
            answer = await answer.work()
        elif isawaitable(answer):
            answer = await answer
        assert not isinstance(answer, Unfinished), f"{type(request).__name__} waits for a change"
        return answer
    finally:
        work.release()
