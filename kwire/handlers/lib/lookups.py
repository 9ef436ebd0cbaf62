"""Lookups in logs that don't wait for the disk on the event loop.

A thread reads pages that aren't in memory, and then the lookup starts again and gets further. If
the kernel drops pages as fast as threads read them, the lookup waits for the disk in the end.
"""

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from kwire.broker.broker import Broker
from kwire.handlers.lib.waiting import later
from kwire.log.page_cache import ColdPages

MANY_TRIES = 200

_T = TypeVar("_T")


async def look_without_waiting(broker: Broker, look: Callable[..., _T]) -> _T:
    """The result of ``look(hurry=True)``, which raises ColdPages rather than wait for the disk."""
    for _ in range(MANY_TRIES):
        try:
            return look(hurry=True)
        except ColdPages as cold:
            await later(partial(broker.cold_reads.populate_around, cold))
    return look(hurry=False)
