"""Slices of the event loop for long work that no client's request pays for, like metrics."""

from time import perf_counter

import trio

SLICE_S = 0.001
"""How long such work may hold the event loop before other tasks have their turn."""


class Slices:
    """Gives other tasks their turn during one long piece of work."""

    __slots__ = ("_end_s",)

    def __init__(self) -> None:
        self._end_s = perf_counter() + SLICE_S

    async def give_way(self) -> None:
        """Give way if the slice is over; call this for each element of a long loop."""
        if perf_counter() >= self._end_s:
            await trio.lowlevel.checkpoint()
            self._end_s = perf_counter() + SLICE_S
