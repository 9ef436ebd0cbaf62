"""The threads of a simulated broker: their work is done in the event loop, at some moment.

Rules:

- A call is mostly done at once. In some runs a part of the calls begin late or end late, and other
  tasks go on meanwhile. The seed decides.
- A call that isn't to be abandoned is waited for, also by a task that is cancelled, as in trio.
"""

from collections.abc import Callable
from random import Random
from typing import Any

import trio

from tests.simulation.virtual_time import pass_s

LATE_S = 0.02
HOW_OFTEN = (0.0, 0.05, 0.3)
"""The part of the calls that are late: that of a run is one of these."""


class Threads:
    """The threads of all brokers of a run."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._how_often = random.choice(HOW_OFTEN)

    async def run(self, function: Callable[..., Any], *args: Any, abandon: bool) -> Any:
        """The result of a call, or its error."""
        await trio.lowlevel.checkpoint()
        await self._wait(abandon)
        result = function(*args)
        await self._wait(abandon)
        return result

    async def _wait(self, abandon: bool) -> None:
        if self._random.random() < self._how_often:
            with trio.CancelScope(shield=not abandon):
                await pass_s(self._random.random() * LATE_S)
