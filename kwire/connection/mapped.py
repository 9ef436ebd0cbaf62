"""Buffers of many megabytes: they are neither zeroed when they are made nor copied when they grow.

A bytearray is zeroed as a whole. For the 100 MB of a large request this takes 50 ms, in which the
event loop serves nobody. The memory of a map is zeroed by the system, page by page, when bytes
arrive. Where the system has no such maps, or can't grow them, a bytearray takes their place.
"""

import mmap
from contextlib import suppress


def new_mapped(size_bytes: int) -> memoryview:
    """A new buffer."""
    flags = getattr(mmap, "MAP_PRIVATE", 0) | getattr(mmap, "MAP_ANONYMOUS", 0)
    if not flags:
        return memoryview(bytearray(size_bytes))
    return memoryview(mmap.mmap(-1, size_bytes, flags=flags))


def grown(view: memoryview, size_bytes: int) -> tuple[memoryview, memoryview]:
    """A larger buffer, and the view from which to copy the bytes: itself if it has them already.

    A buffer grows in place, so ``view`` is released then. It can't while other views of it exist.
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
