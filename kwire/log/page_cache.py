"""Whether parts of files are in memory, and getting them there, so that nobody waits by surprise.

A read of what isn't in the page cache waits for the disk, and with it the whole process if it is
done where requests are served. On Linux ``preadv`` with RWF_NOWAIT refuses instead.

Rules:

- A stretch is probed by a byte of its first page, its last page and one of each PROBE_STEP_BYTES
  between, which is how the kernel reads ahead and evicts; that costs 0.6 µs each.
- A probe of what isn't there makes the kernel begin to read it.
- Where the system or the file system has no RWF_NOWAIT (macOS, tmpfs), nobody knows: small
  stretches are read at once, larger ones count as cold.
"""

import errno
import os
from contextlib import suppress

PAGE_BYTES = 4096
PROBE_STEP_BYTES = 128 * 1024
UNKNOWN_IS_COLD_BYTES = 64 * 1024
READ_STEP_BYTES = 256 * 1024

_NOWAIT = getattr(os, "RWF_NOWAIT", 0)
_UNSUPPORTED = (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS)
_WILL_NEED = getattr(os, "POSIX_FADV_WILLNEED", None)


class ColdPages(Exception):
    """A read that would have had to wait for the disk; ``populate`` it in a thread, and try again.

    ``fd`` is an open file, the rest are bytes.
    """

    def __init__(self, fd: int, position: int, size_bytes: int) -> None:
        super().__init__(fd, position, size_bytes)
        self.fd = fd
        self.position = position
        self.size_bytes = size_bytes


def is_cold(fd: int, position: int, size_bytes: int) -> bool:
    """Whether reading this stretch of a file, which lies within it, may have to wait."""
    if not _NOWAIT:
        return size_bytes > UNKNOWN_IS_COLD_BYTES
    end = position + size_bytes - 1
    byte = bytearray(1)
    try:
        at = position
        for at in range(position, end + 1, PROBE_STEP_BYTES):
            os.preadv(fd, [byte], at, _NOWAIT)
        if end // PAGE_BYTES != at // PAGE_BYTES:
            os.preadv(fd, [byte], end, _NOWAIT)
    except BlockingIOError:
        return True
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
        return size_bytes > UNKNOWN_IS_COLD_BYTES
    return False


def pread_nowait(fd: int, size_bytes: int, position: int) -> bytes:
    """As ``os.pread``, but ColdPages instead of waiting for the disk, where that can be known."""
    buffer = bytearray(size_bytes)
    try:
        count = os.preadv(fd, [buffer], position, _NOWAIT)
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
    """Read a stretch of a file into the page cache, waiting for the disk; for a thread.

    What follows is asked for as well, as far again: it will be wanted next. OSError.
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
