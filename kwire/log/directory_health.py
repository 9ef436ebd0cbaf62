"""Whether a data directory can be used: one object for all logs in it.

Rules:

- An error of the disk takes the whole directory offline until the next start: what else is on that
  disk is not to be trusted either, and half a directory is harder to mend than a whole one.
- A disk that is full, or a system out of descriptors or memory, is no broken disk: what was asked
  fails, and the next try may work.
- A file that is gone, while its directory is there, was deleted by somebody, often by this broker a
  moment ago: that is no broken disk either.
- It is said once when it begins and once when it is over, not for each request. It is over when
  nothing was refused between two looks and, where room was what lacked, there is some: small
  appends may fit while large ones don't, and while nobody writes nothing is refused.

Source: LogDirFailureChannel of Kafka, which takes a full disk offline too.
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
"""With less a disk still counts as full, though nobody may be writing to it."""


def is_shortage_of_room(error: Exception) -> bool:
    """Whether an error says that a disk is full, or somebody's part of it."""
    return isinstance(error, OSError) and error.errno in NO_ROOM


class DirectoryHealth:
    """``failure`` says why the directory is offline, None while it serves.

    ``lacks_room`` says that a lack of room is why it is short or offline. ``tell`` is called when
    it goes offline, in whatever thread notices. While it ``is_opening``, whoever opens it says what
    is wrong: a start that fails says it once.
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
        self._missing: set[str] = set()

    def refused(self, what: str, error: OSError) -> KafkaError:
        """Take an error of the disk in: offline, or short of room. What the client is told."""
        if error.errno in PASSING:
            self._note_shortage(what, error)
        elif error.errno == errno.ENOENT and os.path.exists(self.path / LOCK_FILE):
            self._note_missing(what, error)
        else:
            self.fail(what, error)
        return KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, f"{what}: {error.strerror or error}")

    def sync_failed(self, what: str, error: OSError) -> KafkaError:
        """Take an error of a flush in: offline, unless the file could not even be opened.

        A disk that is full only now has lost what it took before, so that is no exception.
        """
        return self.fail(what, error) if error.errno in NO_ROOM else self.refused(what, error)

    def fail(self, what: str, error: Exception) -> KafkaError:
        """Go offline whatever the error is; what the client is told."""
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
        """Say that the directory is offline."""
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

    def look(self, free_bytes: int) -> None:
        """Look now and then whether a shortage is over."""
        has_room = free_bytes >= LEAST_ROOM_BYTES or not self.lacks_room
        if self.is_short_of_room and not self._refused and has_room:
            self.is_short_of_room = self.lacks_room = False
            log.warning(
                "nothing is refused any more in the data directory %s, which has %d MB of room",
                self.path,
                free_bytes // 1_000_000,
            )
        self._refused = False

    def _note_missing(self, what: str, error: OSError) -> None:
        if what not in self._missing and len(self._missing) < MAX_TOLD:
            self._missing.add(what)
            log.error("%s: %s", what, error)

    def _note_shortage(self, what: str, error: OSError) -> None:
        self._refused = True
        self.lacks_room = self.lacks_room or is_shortage_of_room(error)
        if not self.is_short_of_room:
            self.is_short_of_room = True
            log.error(
                "the data directory %s takes no more until there is room; producers get "
                "KAFKA_STORAGE_ERROR, consumers are served: %s: %s",
                self.path,
                what,
                error,
            )
