"""Checking whether a part of a file is in the page cache, and reading it into the cache.

A read outside the page cache waits for the disk. On the event loop's thread it would make every
connection wait. On Linux, ``preadv`` with RWF_NOWAIT fails instead of waiting.

Rules:

- A probe of a range reads one byte of its first page, of its last page and of one page every
  PROBE_STEP_BYTES between. The kernel reads ahead and evicts in such steps. A probe costs 0.6 µs.
- A probe of a page that isn't cached makes the kernel start reading it.
- Without RWF_NOWAIT (macOS, tmpfs) a probe can't tell what is cached. Small ranges are then read at
  once, and larger ranges count as cold.
"""

import errno
import os
from contextlib import suppress

PAGE_BYTES = 4096
PROBE_STEP_BYTES = 128 * 1024
UNKNOWN_IS_COLD_BYTES = 64 * 1024
READ_STEP_BYTES = 256 * 1024

NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
_WILL_NEED = getattr(os, "POSIX_FADV_WILLNEED", None)


class ColdPages(Exception):
    """A read that would wait for the disk. Call ``populate`` in a thread, then read again.

    ``fd`` is an open file; position and size are in bytes.
    """

    def __init__(self, fd: int, position: int, size_bytes: int) -> None:
        super().__init__(fd, position, size_bytes)
        self.fd = fd
        self.position = position
        self.size_bytes = size_bytes


def is_cold(fd: int, position: int, size_bytes: int) -> bool:
    """Whether reading this range, which lies within the file, may wait for the disk."""
    if not NOWAIT:
        return size_bytes > UNKNOWN_IS_COLD_BYTES
    end = position + size_bytes - 1
    byte = bytearray(1)
    try:
        at = position
        for at in range(position, end + 1, PROBE_STEP_BYTES):
            os.preadv(fd, [byte], at, NOWAIT)
        if end // PAGE_BYTES != at // PAGE_BYTES:
            os.preadv(fd, [byte], end, NOWAIT)
    except BlockingIOError:
        return True
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        return size_bytes > UNKNOWN_IS_COLD_BYTES
    return False


def pread_nowait(fd: int, size_bytes: int, position: int) -> bytes:
    """As ``os.pread``, but raises ColdPages instead of waiting, where RWF_NOWAIT is supported."""
    buffer = bytearray(size_bytes)
    try:
        count = os.preadv(fd, [buffer], position, NOWAIT)
    except BlockingIOError:
        raise ColdPages(fd, position, size_bytes) from None
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        return os.pread(fd, size_bytes, position)
    if count == size_bytes:
        return bytes(buffer)
    if position + count < os.fstat(fd).st_size:
        raise ColdPages(fd, position + count, size_bytes - count)
    return bytes(memoryview(buffer)[:count])


def populate(fd: int, position: int, size_bytes: int) -> None:
    """Read a range of a file into the page cache and wait for the disk; call it in a thread.

    The kernel is asked to read as many bytes again beyond the range, because a consumer is likely
    to read them next. OSError.
    """
    if _WILL_NEED is not None:
        with suppress(OSError):
            os.posix_fadvise(fd, position, 2 * size_bytes, _WILL_NEED)
    buffer = bytearray(min(size_bytes, READ_STEP_BYTES))
    end = position + size_bytes
    while position < end:
        count = os.preadv(fd, [buffer], position)
        if not count:
            return
        position += count
