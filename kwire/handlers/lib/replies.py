"""Waits for a coordinator's reply, in handlers of ``at_once_or_later``."""

from typing import Any

from kwire.broker.delayed import Delayed
from kwire.errors import KafkaError
from kwire.handlers.lib.context import RequestContext
from kwire.handlers.lib.waiting import happens, later
from kwire.runtime import Reply, error_told


async def answer(reply: Reply, context: RequestContext) -> Any:
    """The response, once the coordinator has given it and the records behind it are on the disk.

    If the sync fails, this is the same kind of response with an error.
    """
    if not reply.is_given:
        reply.told = change = Delayed()
        await happens(change)
    if reply.flush is not None:
        context.broker.flusher.leave_to_handler(reply.flush)
        try:
            await later(reply.flush.wait)
        except KafkaError as error:
            return type(reply.response)(error_code=error_told(error))
    return reply.response
