"""Commits in etcd: one transaction writes a commit, and one reads those after a revision.

Rules:

- A commit's transaction may be sent twice. A transaction that fails returns the commit that has
  taken its place. If the ``by`` of that commit is the writer's own, an earlier attempt succeeded.
- The parts of a large commit are written before the commit. No broker reads them until the commit
  names them. The parts of a failed commit are deleted together with old commits.
"""

from collections.abc import Sequence
from typing import NamedTuple

from kwire.budget.thread_pool import ThreadPool
from kwire.config.metadata_store import SETTING
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import Change, PartitionsAdded, PartitionsChanged, TopicCreated
from kwire.metadata.etcd import transactions as tx
from kwire.metadata.etcd.encoding import decode_commit, decode_parts, encode_commit
from kwire.metadata.etcd.following import Following
from kwire.metadata.etcd.gateway import Answered, EtcdError, Gateway, Unreachable
from kwire.metadata.etcd.keys import Keys, end_of, part_key
from kwire.metadata.store import (
    Commit,
    Guard,
    GuardFailed,
    OutcomeUnknown,
    RevisionConflict,
    RevisionGone,
    StoreUnusable,
)

COMMITS_PER_READ = 32
INLINE_CHANGES = 200
INLINE_BYTES = 16 << 10
"""A thread encodes more changes or partitions than these, and decodes a larger value."""


def _weight(changes: Sequence[Change]) -> int:
    """About how many changes and partitions there are to encode."""
    partitions = 0
    for change in changes[:INLINE_CHANGES]:
        if isinstance(change, TopicCreated):
            partitions += len(change.topic.partitions)
        elif isinstance(change, PartitionsChanged):
            partitions += len(change.rows)
        elif isinstance(change, PartitionsAdded):
            partitions += len(change.partitions)
    return len(changes) + partitions


class Found(NamedTuple):
    """The values of commits by revision, and whether the commit before them still exists."""

    values: list[tuple[int, bytes]]
    has_previous: bool


class Log:
    """The log of commits below a prefix."""

    def __init__(
        self, gateway: Gateway, keys: Keys, following: Following, writer: str, threads: ThreadPool
    ) -> None:
        """``writer`` is a unique name of this process; each commit adds its own number to it."""
        self._gateway = gateway
        self._keys = keys
        self._following = following
        self._writer = writer
        self._threads = threads
        self._commits = 0
        self._counted = 0
        self.bytes = 0
        """The bytes of the commits since the last snapshot that this process has read."""

    async def commit(
        self, expected_revision: int, changes: Sequence[Change], guard: Guard | None
    ) -> int:
        """Write a commit; errors as in ``MetadataStore.commit``."""
        self._commits += 1
        by, revision = f"{self._writer}:{self._commits}", expected_revision + 1
        if _weight(changes) > INLINE_CHANGES:
            encoded = await self._threads.run(encode_commit, by, changes)
        else:
            encoded = encode_commit(by, changes)
        for number, part in enumerate(encoded.parts):
            key = part_key(self._keys.commit_parts(revision, by), number)
            await self._write(tx.transaction((), (tx.put(key, part),)))
        request = self._request(expected_revision, encoded.value, guard)
        try:
            answer, is_repeated = await self._write(request)
        except Unreachable as error:
            if error.may_be_done:
                raise OutcomeUnknown(error.message) from error
            raise
        if not tx.succeeded(answer):
            self._explain(answer, by, expected_revision, is_repeated=is_repeated)
        self._following.learn(revision, encoded.value)
        return revision

    async def _write(self, transaction: tx.Json) -> Answered:
        """The answer to a transaction that writes; Unreachable, KafkaError where etcd refuses."""
        try:
            return await self._gateway.call("kv/txn", transaction)
        except EtcdError as error:
            message = f"etcd can't write metadata: {error.message}"
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message) from error

    def _request(self, expected: int, value: bytes, guard: Guard | None) -> tx.Json:
        """The transaction that writes a commit, or reads what has taken its place."""
        keys = self._keys
        compare = [tx.is_absent(keys.commit(expected + 1))]
        # The first commit has no commit before it, so the log has to be empty.
        compare.append(tx.is_there(keys.commit(expected)) if expected else tx.is_empty(keys.log))
        if guard is not None:
            compare.append(tx.still(keys, guard))
        newest = tx.get_last(keys.log, end_of(keys.log))
        failure = [tx.get(keys.commit(expected + 1)), newest]
        return tx.transaction(compare, [tx.put(keys.commit(expected + 1), value)], failure)

    def _explain(self, answer: tx.Json, by: str, expected: int, *, is_repeated: bool) -> None:
        """Raise the error of a failed transaction; nothing if an earlier attempt had succeeded."""
        taken, newest = tx.found_keys(answer, 0), tx.found_keys(answer, 1)
        if taken:
            self._following.learn(expected + 1, taken[0].value)
            if decode_commit(taken[0].value).by != by:
                raise RevisionConflict
            return
        if (self._keys.revision(newest[0].key) if newest else 0) == expected:
            raise GuardFailed
        if is_repeated:
            raise OutcomeUnknown("the commit's place in the log was deleted before its answer came")
        self._following.read_again()
        raise RevisionConflict

    async def delete_cluster(self, revision: int) -> None:
        """Delete all commits and snapshots, as they were at this revision.

        RevisionConflict if there are newer commits, or a broker has a session; else errors as those
        of a commit.
        """
        keys = self._keys
        compare = [
            tx.is_there(keys.commit(revision)),
            tx.is_absent(keys.commit(revision + 1)),
            tx.is_empty(keys.live),
        ]
        # Only kwire's own keys, because the prefix of another cluster may begin with this prefix.
        ranges = [(name, end_of(name)) for name in (keys.log, keys.parts, keys.snapshots)]
        operations = [tx.delete_between(first, end) for first, end in ranges]
        operations += [tx.delete(keys.newest_snapshot), tx.delete(keys.controller)]
        newest = tx.get_last(keys.log, end_of(keys.log))
        answer, _ = await self._write(tx.transaction(compare, operations, [newest]))
        if not tx.succeeded(answer) and tx.found_keys(answer):
            raise RevisionConflict

    async def read_after(self, revision: int, limit: int = COMMITS_PER_READ) -> Found:
        """The values of the next commits after a revision."""
        first = self._keys.commit(revision + 1)
        between = tx.get_between(first, end_of(self._keys.log), limit)
        operations = [between, tx.has(self._keys.commit(revision))]
        answer = (await self._gateway.call("kv/txn", tx.transaction((), operations))).body
        values = [(self._keys.revision(key.key), key.value) for key in tx.found_keys(answer)]
        return Found(values, bool(tx.found_keys(answer, 1)))

    async def next_commits(self, revision: int) -> list[Commit]:
        """Commits after a revision, at least the next one if there is one; RevisionGone.

        The watch may have brought the next commit already. If etcd has the commit but the watch
        hasn't brought it, the watch has missed it.
        """
        value = self._following.value(revision + 1)
        if value is not None:
            return [await self.decoded(revision + 1, value)]
        found = await self.read_after(revision)
        if not found.values:
            if revision and not found.has_previous:
                raise self.lost(revision)
            return []
        commits = []
        for number, value in found.values:
            if number != revision + 1:
                raise RevisionGone
            commits.append(await self.decoded(number, value))
            revision = number
            self._following.record_revision(number)
        return commits

    async def decoded(self, revision: int, value: bytes) -> Commit:
        """The commit that a value holds; RevisionGone if its parts were deleted meanwhile."""
        self._count_bytes(revision, len(value))
        try:
            if len(value) > INLINE_BYTES:
                written = await self._threads.run(decode_commit, value)
            else:
                written = decode_commit(value)
            if not written.parts:
                return Commit(revision, written.changes)
            parts = await self.parts(self._keys.commit_parts(revision, written.by))
            if len(parts) != written.parts:
                raise RevisionGone
            self.bytes += sum(map(len, parts))
            return Commit(revision, await self._threads.run(decode_parts, parts))
        except (ValueError, LookupError, TypeError) as error:
            raise StoreUnusable(
                f"{self._keys.commit(revision)} in etcd can't be read as kwire's metadata: "
                f"{error!r}; was it written by a newer kwire?"
            ) from error

    def count_from(self, revision: int) -> None:
        """Count the bytes of commits after this revision, which has a snapshot."""
        self._counted, self.bytes = revision, 0

    def _count_bytes(self, revision: int, size_bytes: int) -> None:
        if revision > self._counted:
            self._counted = revision
            self.bytes += size_bytes

    async def parts(self, beginning: str) -> list[bytes]:
        """The values of the parts whose keys begin with ``beginning``, in order."""
        parts: list[bytes] = []
        while True:
            between = tx.get_between(part_key(beginning, len(parts)), end_of(beginning), 4)
            answer = (await self._gateway.call("kv/txn", tx.transaction((), [between]))).body
            found = tx.found_keys(answer)
            if not found:
                return parts
            parts += [part.value for part in found]

    def lost(self, revision: int) -> StoreUnusable:
        """The error if etcd no longer has a commit that it acknowledged."""
        return StoreUnusable(
            f"etcd no longer has revision {revision} of the metadata, nor a newer one: was it "
            f"restored from a backup, or is the prefix in {SETTING} wrong?"
        )
