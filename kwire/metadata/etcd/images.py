"""Images in etcd: writes and reads snapshots, and deletes the commits that they replace.

Rules:

- The parts of a snapshot are written first. Then one transaction names the snapshot, and deletes
  older snapshots and the commits before the *previous* snapshot.
- The newest commit is never deleted, because the transaction of the next commit checks that this
  one exists.
- If a snapshot is deleted while it is read, the reader reads the newer snapshot.
"""

import json
from contextlib import suppress
from typing import NamedTuple

from kwire.budget.thread_pool import ThreadPool
from kwire.metadata.changes import Change, apply, snapshot
from kwire.metadata.etcd import transactions as tx
from kwire.metadata.etcd.encoding import decode_parts, encode_parts
from kwire.metadata.etcd.gateway import EtcdError, Gateway
from kwire.metadata.etcd.keys import Keys, part_key
from kwire.metadata.etcd.log import Log
from kwire.metadata.image import MetadataImage
from kwire.metadata.store import Commit, Guard, GuardFailed, RevisionGone, StoreUnusable

COMMITS_BEFORE_SNAPSHOT = 1000
BYTES_BEFORE_SNAPSHOT = 1 << 20
ATTEMPTS = 10
COMPACTION_MS = 300_000


class Snapshot(NamedTuple):
    """The newest snapshot: the revision of its image, its writer, and its number of parts."""

    revision: int
    by: str
    parts: int


class Images:
    """The images below a prefix."""

    def __init__(
        self, gateway: Gateway, keys: Keys, log: Log, writer: str, threads: ThreadPool
    ) -> None:
        """``writer`` is a unique name of this process."""
        self._gateway = gateway
        self._keys = keys
        self._log = log
        self._writer = writer
        self._threads = threads
        self._compacted_ms = float("-inf")
        self._compactable = 0

    async def read(self) -> MetadataImage:
        """The newest image; StoreUnusable if the store is damaged."""
        for _ in range(ATTEMPTS):
            try:
                return await self._read()
            except RevisionGone:
                continue  # a newer snapshot has replaced what was being read
        raise StoreUnusable(
            f"the metadata below {self._keys.prefix} in etcd is incomplete: the snapshot or "
            "commits after it are missing; restore etcd from a backup"
        )

    async def _read(self) -> MetadataImage:
        image = MetadataImage()
        newest = await self._newest_snapshot()
        if newest is not None:
            parts = await self._log.parts(self._keys.image_parts(newest.revision, newest.by))
            if len(parts) != newest.parts:
                raise RevisionGone
            try:
                changes = await self._threads.run(decode_parts, parts)
            except (ValueError, LookupError, TypeError) as error:
                raise StoreUnusable(
                    f"{self._keys.newest_snapshot} in etcd can't be read as kwire's metadata: "
                    f"{error!r}; was it written by a newer kwire?"
                ) from error
            image = await self._threads.run(apply, image, changes, newest.revision)
        self._log.count_from(image.revision)
        while True:
            found = await self._log.read_after(image.revision)
            if not found.values:
                if image.revision and not found.has_previous:
                    raise RevisionGone
                return image
            for revision, value in found.values:
                if revision != image.revision + 1:
                    raise RevisionGone
                commit = await self._log.decoded(revision, value)
                image = await self._threads.run(_applied, image, commit)

    async def _newest_snapshot(self) -> Snapshot | None:
        request = tx.transaction((), [tx.get(self._keys.newest_snapshot)])
        found = tx.found_keys((await self._gateway.call("kv/txn", request)).body)
        return Snapshot(**json.loads(found[0].value)) if found else None

    async def upkeep(self, image: MetadataImage, guard: Guard, steady_ms: int) -> None:
        """Write a snapshot if many commits came since the last one, and have etcd compact.

        GuardFailed if another broker is the controller by now.
        """
        newest = await self._newest_snapshot()
        since = image.revision - (newest.revision if newest else 0)
        # A controller that can't follow the store may know less than the newest snapshot has.
        is_long = self._log.bytes >= BYTES_BEFORE_SNAPSHOT
        if since >= COMMITS_BEFORE_SNAPSHOT or (since > 0 and is_long):
            await self._write(image, newest.revision if newest else 0, guard)
        if steady_ms - self._compacted_ms >= COMPACTION_MS:
            await self._compact()
            self._compacted_ms = steady_ms

    async def _write(self, image: MetadataImage, previous: int, guard: Guard) -> None:
        keys, by = self._keys, self._writer
        # The commits up to the previous snapshot are deleted with it, none that is needed.
        assert previous < image.revision, (previous, image.revision)
        changes: list[Change] = await self._threads.run(snapshot, image)
        parts = await self._threads.run(encode_parts, changes)
        beginning = keys.image_parts(image.revision, by)
        for number, part in enumerate(parts):
            await self._guarded(guard, tx.put(part_key(beginning, number), part))
        named = Snapshot(image.revision, by, len(parts))
        await self._guarded(
            guard,
            tx.put(keys.newest_snapshot, json.dumps(named._asdict()).encode()),
            tx.delete_between(keys.snapshots, keys.image_parts(image.revision)),
            tx.delete_between(keys.log, keys.commit(previous)),
            tx.delete_between(keys.parts, keys.commit_parts(previous)),
        )
        self._log.count_from(image.revision)

    async def _guarded(self, guard: Guard, *operations: tx.Json) -> None:
        request = tx.transaction([tx.still(self._keys, guard)], operations)
        if not tx.succeeded((await self._gateway.call("kv/txn", request)).body):
            raise GuardFailed

    async def _compact(self) -> None:
        """Have etcd forget the values that were replaced before the last compaction."""
        if self._compactable:
            with suppress(EtcdError):  # another client may have compacted etcd further already
                await self._gateway.call("kv/compaction", {"revision": str(self._compactable)})
        answer = await self._gateway.call("maintenance/status", {})
        self._compactable = tx.revision_of(answer.body)


def _applied(image: MetadataImage, commit: Commit) -> MetadataImage:
    return apply(image, commit.changes, commit.revision)
