"""Serves a request as far as its client has the rights: first ``RIGHTS``, then the handler."""

from collections.abc import Callable, Sequence
from types import CoroutineType
from typing import Any

from kwire.handlers.lib.authorization import Authorization
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.rights import Right, unchecked
from kwire.handlers.lib.waiting import at_once_or_later, begun_at_once


def serve_authorized(
    rights: Sequence[Right],
    handle: Callable[[Any, RequestContext], Any],
    api: str,
    request: Any,
    context: RequestContext,
) -> Any:
    """The response to a request, as far as the client has the rights; or ``Unfinished``."""
    checks = [one.serve for one in rights if one.serve is not unchecked]
    if not checks:
        return begun_at_once(handle)(request, context)
    authorizer = context.broker.authorizer
    assert authorizer is not None
    authorization = Authorization(authorizer, api, context)

    async def serve(request: Any, place: int = 0) -> Any:
        if place == len(checks):
            answer = handle(request, context)
            return await answer if type(answer) is CoroutineType else answer
        return await checks[place](request, authorization, lambda left: serve(left, place + 1))

    return at_once_or_later(serve(request))
