"""The store of one process: commits in a SQLite file, durable when ``commit`` returns.

File ``kwire-metadata.db``::

    meta(name, value)                     format = 1
    commits(revision, changes)            the changes of each revision as JSON

Rules:

- Journal mode WAL with ``synchronous=FULL``: a commit is on disk when it returns, and a process
  that is killed leaves the last commit that returned.
- After many commits they are replaced by one snapshot of the image at that revision.
- Writing waits for the disk, so it happens in a thread, one commit at a time.
"""

import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import trio

from kwire.metadata.changes import Change, apply, from_json, snapshot, to_json
from kwire.metadata.image import MetadataImage
from kwire.metadata.store import Commit, RevisionConflict, StoreUnusable

FILE_NAME = "kwire-metadata.db"
FORMAT = "1"
COMMITS_BEFORE_SNAPSHOT = 1000


class EmbeddedStore:
    """A MetadataStore in a file that this process alone has open."""

    def __init__(self, connection: sqlite3.Connection, image: MetadataImage, commits: int) -> None:
        self._connection = connection
        self._image = image
        self._commits = commits
        self._lock = trio.Lock()
        self._watchers: list[trio.MemorySendChannel[Commit]] = []

    @classmethod
    def open(cls, path: Path) -> "EmbeddedStore":
        """Open or create the file; StoreUnusable for one that can't be read."""
        try:
            connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute("PRAGMA synchronous=FULL")
            _check_format(connection, path)
            rows = connection.execute("SELECT revision, changes FROM commits ORDER BY revision")
            image = MetadataImage()
            commits = 0
            for revision, changes in rows:
                image = apply(image, from_json(changes), revision)
                commits += 1
        except (sqlite3.Error, ValueError, KeyError, TypeError) as error:
            raise StoreUnusable(
                f"{path} can't be read as kwire's metadata: {error}; "
                "restore the file, or start with another data directory"
            ) from error
        return cls(connection, image, commits)

    async def read(self) -> MetadataImage:
        """The newest image."""
        return self._image

    async def commit(self, expected_revision: int, changes: Sequence[Change]) -> int:
        """Make ``changes`` durable as the next revision; RevisionConflict if another came first."""
        async with self._lock:
            if self._image.revision != expected_revision:
                raise RevisionConflict
            revision = expected_revision + 1
            image = apply(self._image, changes, revision)
            await trio.to_thread.run_sync(self._write, revision, list(changes), image)
            self._image = image
        commit = Commit(revision, changes)
        for watcher in self._watchers:
            watcher.send_nowait(commit)
        return revision

    def watch(self, revision: int) -> AsyncIterator[Commit]:
        """Every commit from now on; ``revision`` is that of the image just read."""
        assert revision == self._image.revision
        send, receive = trio.open_memory_channel[Commit](_NO_LIMIT)
        self._watchers.append(send)
        return receive

    async def close(self) -> None:
        """Close the file and end every watch."""
        for watcher in self._watchers:
            watcher.close()
        self._connection.close()

    def _write(self, revision: int, changes: list[Change], image: MetadataImage) -> None:
        """Write one commit, or a snapshot in the place of all; called in a thread."""
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            if self._commits >= COMMITS_BEFORE_SNAPSHOT:
                connection.execute("DELETE FROM commits")
                changes = snapshot(image)
                self._commits = 0
            connection.execute("INSERT INTO commits VALUES (?, ?)", (revision, to_json(changes)))
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
        self._commits += 1


_NO_LIMIT = 1 << 30
"""Commits waiting for a watcher: each waits for its thread, so they can't pile up."""


def _check_format(connection: sqlite3.Connection, path: Path) -> None:
    """Create the tables in an empty file; StoreUnusable where a newer kwire wrote them."""
    connection.execute(
        "CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)"
    )
    connection.execute(
        "CREATE TABLE IF NOT EXISTS commits (revision INTEGER PRIMARY KEY, changes TEXT NOT NULL)"
    )
    connection.execute("INSERT OR IGNORE INTO meta VALUES ('format', ?)", (FORMAT,))
    (found,) = connection.execute("SELECT value FROM meta WHERE name = 'format'").fetchone()
    if found != FORMAT:
        raise StoreUnusable(f"{path} has format {found}, this kwire reads format {FORMAT}")
