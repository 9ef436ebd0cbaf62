"""The metadata store of one process: commits in a SQLite file, durable when ``commit`` returns.

File ``kwire-metadata.db``::

    meta(name, value)                     format = 1
    commits(revision, changes)            the changes of each revision as JSON

Rules:

- SQLite runs in journal mode WAL with ``synchronous=FULL``. So a commit is on the disk when
  ``commit`` returns, and neither a killed process nor a power cut loses it.
- A new file is made under a temporary name and renamed when it is complete. Before the rename,
  SQLite writes no journal: that saves most of the waits for the disk. After a crash, an incomplete
  file is made anew.
- After many commits, or many bytes of commits, one snapshot of the image replaces them all. So the
  file never grows beyond a small multiple of the image.
- The latest commits stay in memory for new watchers, up to a number and a size.
- A thread writes the commits, one at a time, because a write waits for the disk.
- Sessions are in memory and last as long as the process: a broker always reaches its own store.
"""

import errno
import tempfile
from collections import deque
from collections.abc import Sequence
from contextlib import closing
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from kwire.budget.thread_pool import ThreadPool
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import Change, apply, from_json, snapshot, to_json
from kwire.metadata.image import MetadataImage
from kwire.metadata.store import (
    Commit,
    Guard,
    Member,
    RevisionConflict,
    RevisionGone,
    Session,
    Sessions,
    StoreFull,
    StoreUnusable,
    Stream,
)

if TYPE_CHECKING:
    import sqlite3

    from kwire.metadata.session_table import SessionTable

FILE_NAME = "kwire-metadata.db"
FORMAT = "1"
COMMITS_BEFORE_SNAPSHOT = 1000
ROOM_BYTES = 1 << 20
"""The most room that opening the file takes, for SQLite's write-ahead log and shared memory."""

BYTES_BEFORE_SNAPSHOT = 4 << 20
"""A snapshot follows when the commits since the last snapshot have more bytes than this limit, and
more bytes than that snapshot."""

RECENT_COMMITS = 1000
RECENT_BYTES = 256 << 10
"""The most bytes of remembered commits, by their size in the file; in memory they take more."""

SYNCHRONOUS = "FULL"
"""FULL syncs a commit before ``commit`` returns. Tests that simulate no power cut switch it off."""


class EmbeddedStore:
    """A MetadataStore in a file that this process alone has open."""

    def __init__(
        self, connection: "sqlite3.Connection", image: MetadataImage, commit_sizes: Sequence[int]
    ) -> None:
        """``commit_sizes``: the bytes of each commit in the file; the first may be a snapshot."""
        self._connection = connection
        self._cursor = (
            connection.cursor()
        )  # for all statements: sqlite3 keeps old cursors for a while
        self._image = image
        self._snapshot_bytes = commit_sizes[0] if commit_sizes else 0
        self._commits = len(commit_sizes)
        self._bytes = sum(commit_sizes[1:])
        self._recent = RecentCommits()
        self._lock = trio.Lock()
        self._threads = ThreadPool(1)
        self._watchers: list[trio.MemorySendChannel[Commit]] = []
        self._sessions: SessionTable | None = None

    @classmethod
    def open(cls, path: Path, *, is_durable: bool = True) -> "EmbeddedStore":
        """Open or create the file; StoreUnusable if it is unreadable, StoreFull on a full disk.

        A commit in a file that isn't durable survives the end of the process, but no power cut.
        """
        import sqlite3  # only here and below: a broker of a cluster on etcd doesn't need it

        synchronous = SYNCHRONOUS if is_durable else "OFF"
        try:
            if not path.exists():
                _create(path, synchronous)
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        except sqlite3.Error as error:
            raise _unusable(path, error) from error
        try:
            return cls(connection, *_load(connection, path, synchronous))
        except StoreUnusable:
            connection.close()
            raise
        except (sqlite3.Error, ValueError, LookupError, TypeError, AttributeError) as error:
            connection.close()
            raise _unusable(path, error) from error

    async def read(self) -> MetadataImage:
        """The newest image."""
        return self._image

    async def commit(
        self, expected_revision: int, changes: Sequence[Change], guard: Guard | None = None
    ) -> int:
        """Make ``changes`` durable as the next revision, and return its number.

        Raises RevisionConflict if another commit came first, GuardFailed, and KafkaError
        (KAFKA_STORAGE_ERROR) when the file can't be written.
        """
        import sqlite3

        async with self._lock:
            if guard is not None:
                self._table().check(guard)
            if self._image.revision != expected_revision:
                raise RevisionConflict
            revision = expected_revision + 1
            try:
                image, size_bytes = await self._threads.run(self._write, revision, list(changes))
            except sqlite3.Error as error:
                raise KafkaError(
                    ErrorCode.KAFKA_STORAGE_ERROR, f"metadata can't be written: {error}"
                ) from error
            assert image.revision == revision, (image.revision, revision)
            self._image = image
            commit = Commit(revision, changes)
            self._recent.add(commit, size_bytes)
            for watcher in list(self._watchers):
                try:
                    watcher.send_nowait(commit)
                except trio.BrokenResourceError:
                    self._watchers.remove(watcher)  # the watcher was closed
        return revision

    def watch(self, revision: int) -> Stream[Commit]:
        """Every commit after ``revision``, future ones included.

        Raises RevisionGone if the store no longer has all of them.
        """
        missed = self._recent.last(self._image.revision - revision)
        send, receive = trio.open_memory_channel[Commit](_NO_LIMIT)
        for commit in missed:
            send.send_nowait(commit)
        self._watchers.append(send)
        return receive

    async def begin_session(self, member: Member, ttl_ms: int) -> Session:
        """Begin a session; NodeIdTaken if another process has the node id."""
        from kwire.metadata.session_table import LastingSession

        return LastingSession(self._table(), member, ttl_ms)

    def sessions(self) -> Stream[Sessions]:
        """The sessions now, and again after each change."""
        return self._table().watch()

    async def hold_controller(self, session: Session) -> Guard | None:
        """Become the controller; None if another broker is the controller."""
        return self._table().hold_controller(session.guard)

    async def end(self, guard: Guard) -> None:
        """End a session or a hold."""
        self._table().end(guard)

    async def upkeep(self, image: MetadataImage, guard: Guard) -> None:
        """Do nothing: the next commit writes a snapshot if there are too many commits."""

    async def run(self) -> None:
        """Do nothing: the store has no tasks."""

    def _table(self) -> "SessionTable":
        """The sessions, made on first use: a single broker never needs them."""
        if self._sessions is None:
            from kwire.metadata.session_table import SessionTable

            self._sessions = SessionTable()
        return self._sessions

    async def close(self) -> None:
        """Close the file and end every watch."""
        for watcher in self._watchers:
            watcher.close()
        self._connection.close()

    def _write(self, revision: int, changes: list[Change]) -> tuple[MetadataImage, int]:
        """Write one commit, or a snapshot that replaces all commits.

        A thread calls this, because a commit with very many changes takes long. Returns the image
        after the commit, and the size of the commit in bytes.
        """
        image = apply(self._image, changes, revision)
        text = to_json(changes)
        size_bytes = len(text)
        is_snapshot = self._commits >= COMMITS_BEFORE_SNAPSHOT or self._bytes + size_bytes > max(
            BYTES_BEFORE_SNAPSHOT, self._snapshot_bytes
        )
        if is_snapshot:
            text = to_json(snapshot(image))
        connection, execute = self._connection, self._cursor.execute
        execute("BEGIN IMMEDIATE")
        try:
            if is_snapshot:
                execute("DELETE FROM commits")
            execute("INSERT INTO commits VALUES (?, ?)", (revision, text))
            execute("COMMIT")
        except BaseException:
            if connection.in_transaction:
                execute("ROLLBACK")
            raise
        if is_snapshot:
            self._commits, self._bytes, self._snapshot_bytes = 1, 0, len(text)
        else:
            self._commits += 1
            self._bytes += size_bytes
        return image, size_bytes


class RecentCommits:
    """The latest commits, the newest at the end."""

    def __init__(self) -> None:
        self._commits: deque[tuple[Commit, int]] = deque()
        self._bytes = 0

    def add(self, commit: Commit, size_bytes: int) -> None:
        """Remember a commit; forget the oldest ones beyond the limits on number and bytes."""
        # ``last`` counts back from the newest: none may be missing.
        is_next = not self._commits or commit.revision == self._commits[-1][0].revision + 1
        assert is_next, commit.revision
        self._commits.append((commit, size_bytes))
        self._bytes += size_bytes
        while self._bytes > RECENT_BYTES or len(self._commits) > RECENT_COMMITS:
            self._bytes -= self._commits.popleft()[1]
        assert self._bytes >= 0, self._bytes

    def last(self, count: int) -> list[Commit]:
        """The last ``count`` commits; RevisionGone if fewer are remembered."""
        first = len(self._commits) - count
        if not 0 <= first <= len(self._commits):
            raise RevisionGone
        return [commit for commit, _ in islice(self._commits, first, None)]


_NO_LIMIT = 1 << 30
"""How many commits a watcher's channel holds. Few ever wait, because writing a commit is slow."""


def lacks_room(directory: Path) -> bool:
    """Whether a directory lacks room for ``ROOM_BYTES``, which SQLite's errors don't always say."""
    try:
        with tempfile.TemporaryFile(dir=directory, buffering=0) as probe:
            return probe.write(bytes(ROOM_BYTES)) < ROOM_BYTES
    except OSError as error:
        return error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def _unusable(path: Path, error: Exception) -> StoreUnusable:
    import sqlite3

    if isinstance(error, sqlite3.Error) and lacks_room(path.parent):
        return StoreFull(f"{path} can't be opened: {error}")
    return StoreUnusable(
        f"{path} can't be read as kwire's metadata: {error!r}; "
        "restore the file, or start with another data directory"
    )


def _load(
    connection: "sqlite3.Connection", path: Path, synchronous: str
) -> tuple[MetadataImage, list[int]]:
    """The image that the file's commits make, and the size of each commit in bytes."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute(f"PRAGMA synchronous={synchronous}")
    _check_format(connection, path)
    image = MetadataImage()
    commit_sizes: list[int] = []
    rows = connection.execute("SELECT revision, changes FROM commits ORDER BY revision")
    for revision, changes in rows:
        image = apply(image, from_json(changes), revision)
        commit_sizes.append(len(changes))
    return image, commit_sizes


def _create(path: Path, synchronous: str) -> None:
    """Make a file without commits; the caller syncs its directory."""
    import sqlite3

    unfinished = path.with_name(f"{path.name}.new")
    unfinished.unlink(missing_ok=True)
    with closing(sqlite3.connect(unfinished, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode=OFF")
        connection.execute(f"PRAGMA synchronous={synchronous}")
        connection.execute("BEGIN")
        _create_tables(connection)
        connection.execute("COMMIT")
        connection.execute("PRAGMA journal_mode=WAL")
    # SQLite would replay a journal that an earlier file of this name left behind.
    path.with_name(f"{path.name}-wal").unlink(missing_ok=True)
    unfinished.replace(path)


def _create_tables(connection: "sqlite3.Connection") -> None:
    connection.execute(
        "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)"
    )
    connection.execute(
        "CREATE TABLE IF NOT EXISTS commits (revision INTEGER PRIMARY KEY, changes TEXT NOT NULL)"
    )
    connection.execute("INSERT OR IGNORE INTO meta VALUES ('format', ?)", (FORMAT,))


def _check_format(connection: "sqlite3.Connection", path: Path) -> None:
    """Create the tables in an empty file; raise StoreUnusable for a file in another format."""
    _create_tables(connection)
    (found,) = connection.execute("SELECT value FROM meta WHERE name = 'format'").fetchone()
    if found != FORMAT:
        raise StoreUnusable(
            f"{path} has format {found}, this kwire reads format {FORMAT}; "
            "start the version of kwire that wrote it, or use another data directory"
        )
