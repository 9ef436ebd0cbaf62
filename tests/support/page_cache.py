"""A page cache that holds what a test says, in the place of the kernel's.

Rules: a page is in memory once it was read by a call that may wait, or kept by the test. What is
written is not. Whether a read has to wait is seen where it is asked of the system
(``os.preadv``), so it holds for whatever reads.
"""

import os
import threading

import pytest

from kwire.log import page_cache
from kwire.log.page_cache import PAGE_BYTES

RWF_NOWAIT = 8
"""Linux's number, for systems that have none."""

LONGEST_S = 20
"""A test that fails doesn't open the gate; its threads end by themselves."""


class PageCache:
    """``gate`` holds the reads that wait for the disk; ``waiting`` is set by the first of them."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.looks: list[int] = []
        """Where calls that may not wait have begun to read."""
        self.keeps = True
        """Whether what was read stays; else it is gone before the next look."""
        self.error = 0
        """The errno of calls that may not wait, which a system may not know."""
        self.gate = threading.Event()
        self.gate.set()
        self.waiting = threading.Event()
        self._pages: set[tuple[int, int]] = set()
        patch.setattr(os, "preadv", self.preadv)
        patch.setattr(page_cache, "NOWAIT", RWF_NOWAIT)

    def keep(self, fd: int, position: int, size_bytes: int) -> None:
        """Have a stretch of a file in memory."""
        pages = range(position // PAGE_BYTES, (position + size_bytes - 1) // PAGE_BYTES + 1)
        self._pages.update((os.fstat(fd).st_ino, page) for page in pages)

    def forget(self) -> None:
        """Have nothing in memory any more."""
        self._pages.clear()

    def is_warm(self, file: int, page: int) -> bool:
        """Whether a page of a file (its inode) is in memory."""
        return (file, page) in self._pages

    def preadv(self, fd: int, buffers: list[bytearray], position: int, flags: int = 0) -> int:
        """Read as ``os.preadv`` does: up to a page that isn't there, unless it may wait."""
        [buffer] = buffers
        if flags:
            self.looks.append(position)
            size_bytes = self._warm_bytes(fd, position, len(buffer))
        else:
            self.waiting.set()
            assert self.gate.wait(LONGEST_S)
            size_bytes = len(buffer)
        data = os.pread(fd, size_bytes, position)
        buffer[: len(data)] = data
        if data and not flags and self.keeps:
            self.keep(fd, position, len(data))
        return len(data)

    def _warm_bytes(self, fd: int, position: int, size_bytes: int) -> int:
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        file, end = os.fstat(fd).st_ino, position
        while end < position + size_bytes and self.is_warm(file, end // PAGE_BYTES):
            end = (end // PAGE_BYTES + 1) * PAGE_BYTES
        if end == position:
            raise BlockingIOError
        return min(end - position, size_bytes)
