"""Buffers of many megabytes: made without zeroing, grown without copying, freed in steps.

A bytearray is zeroed as a whole. For the 100 MB of a large request this takes 50 ms, in which the
event loop serves nobody. The memory of a map is zeroed by the system, page by page, when bytes
arrive. To give 100 MB back at once takes 10 ms, so this is done in steps. Where the system has no
such maps, or can't resize them, a bytearray takes their place, and memory is freed at once.
"""

import mmap
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from typing import TypeAlias

from trio.lowlevel import checkpoint

StartTask: TypeAlias = Callable[[Callable[[], Awaitable[None]]], object]
"""Starts a task that runs a function."""

STEP_BYTES = 2 << 20
"""The bytes of one step, which takes some 0.2 ms."""


def new_mapped(size_bytes: int) -> memoryview:
    """A new buffer."""
    flags = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)
    if not flags:
        return memoryview(bytearray(size_bytes))
    return memoryview(mmap.mmap(-1, size_bytes, flags=flags))


def grown(view: memoryview, size_bytes: int) -> tuple[memoryview, memoryview]:
    """A larger buffer, and the view from which the caller has to copy the bytes.

    If the buffer could grow in place, both are the same view, ``view`` is released, and nothing has
    to be copied. A buffer can't grow in place while other views of it exist.
    """
    buffer = view.obj
    if not isinstance(buffer, mmap.mmap):
        return new_mapped(size_bytes), view
    view.release()
    with suppress(BufferError, OSError, SystemError, ValueError):
        buffer.resize(size_bytes)
        larger = memoryview(buffer)
        return larger, larger
    return new_mapped(size_bytes), memoryview(buffer)


def shrunk(view: memoryview) -> Iterator[None]:
    """Give the memory of a buffer back in steps, or at once when its other views have ended."""
    buffer = view.obj
    if not isinstance(buffer, mmap.mmap):
        return
    with suppress(BufferError, OSError, SystemError, ValueError):
        view.release()
        while len(buffer) > STEP_BYTES:
            buffer.resize(len(buffer) - STEP_BYTES)
            yield


class Freeing:
    """Frees buffers, one after the other: a step in each pass of the event loop.

    ``start_task`` starts a task that ends with the connections.
    """

    def __init__(self, start_task: StartTask) -> None:
        self._start_task = start_task
        self._doomed: deque[memoryview] = deque()

    def free(self, view: memoryview) -> None:
        """Free a buffer that its connection no longer uses."""
        self._doomed.append(view)
        if len(self._doomed) == 1:
            self._start_task(self._run)

    async def _run(self) -> None:
        while self._doomed:
            await checkpoint()  # the request that arrived in this buffer may still be in use
            for _ in shrunk(self._doomed[0]):
                await checkpoint()
            self._doomed.popleft()
