"""Reads that wait for the disk, in threads of their own, so that other clients don't wait.

If a lookup in a log missed a page, a thread also reads the pages around it, because a search
continues nearby.
"""

from contextlib import suppress

from kwire.budget.thread_pool import ThreadPool
from kwire.log.page_cache import ColdPages, populate

AROUND_BYTES = 64 * 1024


class ColdReads:
    """The threads of one broker that read cold pages; ``count`` is how often one was needed."""

    def __init__(self, threads: ThreadPool) -> None:
        self.count = 0
        self._threads = threads

    async def populate(self, fd: int, position: int, size_bytes: int) -> None:
        """Wait until this part of a file is in the page cache. OSError."""
        self.count += 1
        await self._threads.run(populate, fd, position, size_bytes)

    async def populate_around(self, cold: ColdPages) -> None:
        """Wait until the page that a lookup missed, and the pages beside it, are in the page cache.

        The file may have been closed meanwhile: then the next lookup raises the right error.
        """
        start = max(0, cold.position - AROUND_BYTES)
        with suppress(OSError):
            await self.populate(cold.fd, start, cold.position - start + cold.size_bytes)
