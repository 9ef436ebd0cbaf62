"""Delays answers that name leaders while one of these leaders may be dead
(``kwire.broker.failure_detector``).
"""

import trio

from kwire.broker.broker import Broker
from kwire.broker.delayed import Delayed
from kwire.broker.failure_detector import NOTICE_S
from kwire.handlers.lib.waiting import happens


async def await_elections(broker: Broker) -> None:
    """Wait while a broker is suspected to be dead, until new leaders are elected or it answers."""
    suspects = broker.suspects
    notice_s = trio.current_time() + NOTICE_S
    while suspects is not None and not broker.is_stopping:
        until_s = suspects.wait_until_s(broker.image, notice_s)
        if until_s is None:
            return
        change = Delayed(until_s)
        suspects.waiters.add(change)
        try:
            await happens(change)
        finally:
            suspects.waiters.discard(change)
