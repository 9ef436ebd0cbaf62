"""Lookups in logs, made where requests are served, that don't wait for the disk.

What isn't in memory is read by a thread, and then the lookup is made again. Each time it gets
further; should pages go as fast as they come, it may wait in the end.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from kwire.broker.broker import Broker
from kwire.handlers.waiting import later
from kwire.log.page_cache import ColdPages

MANY_TRIES = 200

_T = TypeVar("_T")


async def look_without_waiting(broker: Broker, look: Callable[..., _T]) -> _T:
    """The result of ``look(hurry=True)``, which raises ColdPages rather than wait."""
    for _ in range(MANY_TRIES):
        try:
            return look(hurry=True)
        except ColdPages as cold:
            await later(partial(broker.cold_reads.populate_around, cold))
    return look(hurry=False)
