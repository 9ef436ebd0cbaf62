"""The metadata store on etcd, behind ``kwire.metadata.store.MetadataStore``."""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random

import trio

from kwire.budget.thread_pool import ThreadPool
from kwire.config.extras import needs
from kwire.config.metadata_store import SETTING, EtcdAddress
from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import Change
from kwire.metadata.etcd.following import Following
from kwire.metadata.etcd.gateway import (
    CALL_S,
    Access,
    EtcdError,
    Gateway,
    PatientGateway,
    Unreachable,
)
from kwire.metadata.etcd.images import Images
from kwire.metadata.etcd.keys import Keys
from kwire.metadata.etcd.leases import Leases
from kwire.metadata.etcd.log import Log
from kwire.metadata.image import MetadataImage
from kwire.metadata.store import Commit, Guard, Member, Session, Sessions, StoreUnusable

PAUSE_S = 0.5
"""The mean pause before a watcher reads again after a failure."""


class EtcdStore:
    """The store of one process; ``run`` has to run."""

    def __init__(
        self,
        gateway: Gateway,
        prefix: str,
        writer: str,
        *,
        random: Random,
        steady_ms: Callable[[], int],
        keep_every_ms: int,
        threads: ThreadPool | None = None,
        call_s: Callable[[], float] = lambda: CALL_S,
    ) -> None:
        """``writer`` names this process forever: its node id and its incarnation.

        ``call_s`` says how long a call without an answer is repeated.
        """
        self._gateway = gateway = PatientGateway(gateway, call_s)
        self._random = random
        self._steady_ms = steady_ms
        keys = Keys(prefix)
        threads = threads or ThreadPool(1)
        self._following = Following(gateway, keys, random)
        self._log = Log(gateway, keys, self._following, writer, threads)
        self._images = Images(gateway, keys, self._log, writer, threads)
        self._leases = Leases(gateway, keys, self._following, keep_every_ms, steady_ms)

    @classmethod
    async def open(
        cls,
        address: EtcdAddress,
        access: Access,
        writer: str,
        *,
        random: Random,
        steady_ms: Callable[[], int],
        keep_every_ms: int,
        call_s: Callable[[], float] = lambda: CALL_S,
    ) -> "EtcdStore":
        """Connect to a real etcd, which may take ``call_s`` to be there, as each call may later.

        StoreUnusable, or KafkaError (REQUEST_TIMED_OUT).
        """
        try:
            from kwire.metadata.etcd.http_gateway import HttpGateway
        except ImportError as error:
            raise StoreUnusable(f"{SETTING} {needs('cluster', 'h11')}") from error
        gateway = HttpGateway(address, access, random)
        try:
            await gateway.open(call_s())
        except BaseException:
            await gateway.close()
            raise
        return cls(
            gateway,
            address.prefix,
            writer,
            random=random,
            steady_ms=steady_ms,
            keep_every_ms=keep_every_ms,
            call_s=call_s,
        )

    async def read(self) -> MetadataImage:
        """The newest image."""
        with _refusals("can't read metadata"):
            return await self._images.read()

    async def commit(
        self, expected_revision: int, changes: Sequence[Change], guard: Guard | None = None
    ) -> int:
        """Make ``changes`` durable as the next revision; errors as in ``MetadataStore``."""
        return await self._log.commit(expected_revision, changes, guard)

    async def watch(self, revision: int) -> AsyncGenerator[Commit, None]:
        """Every commit after ``revision``; RevisionGone, or StoreUnusable if etcd lost commits."""
        looks = -1
        while True:
            following = self._following
            changed = following.changed
            if looks == following.looks and following.newest <= revision:
                await changed.wait()
                continue
            brought = following.value(revision + 1)
            if brought is None:
                looks = following.looks
            try:
                commits = await self._log.next_commits(revision)
            except (Unreachable, EtcdError):
                looks = -1
                await trio.sleep(self._random.uniform(0.5, 1.5) * PAUSE_S)
                continue
            for commit in commits:
                yield commit
                revision = commit.revision
            if commits and brought is None:
                looks = -1  # the keys may have more

    async def begin_session(self, member: Member, ttl_ms: int) -> Session:
        """Begin the session of this process; NodeIdTaken."""
        with _refusals("can't begin a session"):
            return await self._leases.start_session(member, ttl_ms)

    async def sessions(self) -> AsyncGenerator[Sessions, None]:
        """The sessions now, and again after each change."""
        seen, last = (-1, -1), None
        while True:
            following = self._following
            changed = following.changed
            now = following.looks, following.session_changes
            if now == seen:
                await changed.wait()
                continue
            try:
                sessions = await self._leases.read()
            except (Unreachable, EtcdError):
                await trio.sleep(self._random.uniform(0.5, 1.5) * PAUSE_S)
                continue
            seen = now
            if sessions != last:
                yield sessions
                last = sessions

    async def hold_controller(self, session: Session) -> Guard | None:
        """Become the controller; None if another broker is the controller."""
        with _refusals("can't elect a controller"):
            return await self._leases.hold_controller(session)

    async def end(self, guard: Guard) -> None:
        """End a session or a hold whose process is dead."""
        with _refusals("can't end a session"):
            await self._leases.end(guard)

    async def upkeep(self, image: MetadataImage, guard: Guard) -> None:
        """Write a snapshot and compact etcd when it is time; GuardFailed."""
        with _refusals("can't write a snapshot"):
            await self._images.upkeep(image, guard, self._steady_ms())

    async def members(self) -> list[int]:
        """The brokers that have a session now."""
        return sorted((await self._leases.read()).members)

    async def delete_cluster(self, revision: int) -> None:
        """Delete all keys of a stopped cluster whose newest revision is ``revision``.

        RevisionConflict if the cluster has a newer revision, or if a broker has a session.
        """
        await self._log.delete_cluster(revision)

    async def run(self) -> None:
        """Watch, and keep the session alive, forever."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._following.run)
            nursery.start_soon(self._leases.keep_session)

    async def close(self) -> None:
        """Close the connections."""
        await self._gateway.close()


@contextmanager
def _refusals(what: str) -> Iterator[None]:
    """Raise KafkaError (KAFKA_STORAGE_ERROR) where etcd refuses a call."""
    try:
        yield
    except EtcdError as error:
        message = f"etcd {what}: {error.message}"
        raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, message) from error
