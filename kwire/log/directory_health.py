"""Whether a data directory can be used: one object that all logs in the directory share.

Rules:

- A disk error takes the whole directory offline until the next start. The other files on that disk
  can't be trusted either, and half a directory is harder to repair than a whole one.
- A full disk, or a system out of file descriptors or memory, is not a broken disk. The operation
  fails, and the next try may succeed.
- A file that is missing while its directory exists was deleted, often by this broker a moment ago.
  That is not a broken disk either.
- The broker reports a shortage once when it begins and once when it ends, not for each request. A
  shortage has ended when no operation has failed between two calls of ``check_shortage`` and, if
  room was lacking, the disk has room again. Room is checked too because small appends may fit while
  large ones don't, and because no append fails while no producer writes.

Source: LogDirFailureChannel of Kafka, which takes the directory offline for a full disk too.
"""

import errno
import logging
import os
from collections.abc import Callable
from pathlib import Path

from kwire.errors import ErrorCode, KafkaError

log = logging.getLogger(__name__)

LOCK_FILE = ".lock"
MAX_TOLD = 100
NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
PASSING = NO_ROOM | {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EINTR, errno.EAGAIN}


LEAST_ROOM_BYTES = 1_000_000
"""A disk with less room counts as full, even if no producer writes to it."""


def is_shortage_of_room(error: Exception) -> bool:
    """Whether an error says that the disk is full or that a quota is used up."""
    return isinstance(error, OSError) and error.errno in NO_ROOM


def passes(error: OSError) -> bool:
    """Whether a sync may succeed after this error: no page is lost, as far as the error says."""
    return error.errno in PASSING - NO_ROOM or error.errno == errno.ENOENT


class DirectoryHealth:
    """``failure`` says why the directory is offline; it is None while the directory serves.

    ``lacks_room`` says that lack of room is the reason for a shortage or for being offline.
    ``tell`` is called when the directory goes offline or is full, in the thread that noticed it.
    While ``is_opening`` is set, a failure is not logged here: the opening code reports it, so that
    a failed start reports each failure once.
    """

    __slots__ = (
        "_missing",
        "_refused",
        "failure",
        "is_opening",
        "is_short_of_room",
        "lacks_room",
        "path",
        "tell",
    )

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failure: str | None = None
        self.is_opening = False
        self.is_short_of_room = False
        self.tell: Callable[[], None] | None = None
        self.lacks_room = False
        self._refused = False
        self._missing: set[tuple[str, object]] = set()

    @property
    def is_full(self) -> bool:
        """Whether the directory takes no records for lack of room."""
        return self.is_short_of_room and self.lacks_room

    @property
    def is_useless(self) -> bool:
        """Whether the directory takes no records, for whatever reason."""
        return self.failure is not None or self.is_full

    def refused(self, what: str, error: OSError) -> KafkaError:
        """Record a disk error: go offline, or note a shortage. Returns the client's error."""
        if error.errno in PASSING:
            self._note_shortage(what, error)
        elif error.errno == errno.ENOENT and os.path.exists(self.path / LOCK_FILE):
            self._note_missing(what, error)
        else:
            self.fail(what, error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{what}: {error.strerror or error}")

    def sync_failed(self, what: str, error: OSError) -> KafkaError:
        """Record an error of a flush; returns the client's error.

        A flush that fails because the disk is full has lost data that was written before, so the
        directory goes offline. A lack of descriptors or memory only prevents the file from being
        opened, so it counts as a shortage here too.
        """
        return self.fail(what, error) if error.errno in NO_ROOM else self.refused(what, error)

    def fail(self, what: str, error: Exception) -> KafkaError:
        """Go offline, whatever the error is; returns the client's error."""
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        if self.failure is None:
            self.lacks_room = is_shortage_of_room(error)
            self.failure = f"{what}: {reason}"
            if not self.is_opening:
                self.announce()
            if self.tell is not None:
                self.tell()
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{what}: {reason}")

    def announce(self) -> None:
        """Write to the broker's log that the directory is offline."""
        log.error(
            "the data directory %s is offline until the next start, its partitions answer "
            "KAFKA_STORAGE_ERROR: %s",
            self.path,
            self.failure,
        )

    def check(self) -> None:
        """KafkaError (KAFKA_STORAGE_ERROR) while the directory is offline."""
        if self.failure is not None:
            raise KafkaError(
                ErrorCode.KAFKA_STORAGE_ERROR, f"the data directory {self.path} is offline"
            )

    def check_shortage(self, free_bytes: int) -> None:
        """Check whether a shortage has ended; called periodically."""
        has_room = free_bytes >= LEAST_ROOM_BYTES or not self.lacks_room
        if self.is_short_of_room and not self._refused and has_room:
            self.is_short_of_room = self.lacks_room = False
            log.warning(
                "the data directory %s takes records again and has %d MB of room",
                self.path,
                free_bytes // 1_000_000,
            )
        self._refused = False

    def _note_missing(self, what: str, error: OSError) -> None:
        told = what, error.filename  # another file of the same operation is another loss
        if told not in self._missing and len(self._missing) < MAX_TOLD:
            self._missing.add(told)
            log.error("%s: %s", what, error)

    def _note_shortage(self, what: str, error: OSError) -> None:
        self._refused = True
        was_full = self.is_full
        self.lacks_room = self.lacks_room or is_shortage_of_room(error)
        if not self.is_short_of_room:
            self.is_short_of_room = True
            log.error(
                "the data directory %s takes no records until there is room; producers get "
                "KAFKA_STORAGE_ERROR, consumers are served: %s: %s",
                self.path,
                what,
                error,
            )
        if self.is_full and not was_full and self.tell is not None:
            self.tell()
