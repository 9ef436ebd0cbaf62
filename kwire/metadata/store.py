"""The interface of a metadata store, which keeps the changes of the cluster's metadata.

Rules:

- A commit writes changes as the next revision. It succeeds only if the store's newest revision is
  the one on which the changes were decided, and only if its guard still exists.
- The changes are durable when ``commit`` returns.
- All watchers see the same commits in the same order.
- A broker has at most one session. Other brokers see it in ``sessions`` until it is closed, gets no
  keepalive for too long, or is ended by a broker that has proven the death of the process.
- Safety never depends on a session: sessions only make a failover quick. The guard of a commit
  protects the metadata, because the store checks the guard when it writes.
- ``run`` has to run while the store is used, except for the embedded store.

Four stores pass tests/metadata/test_store_contract.py: embedded, supervised, etcd, and etcd's over
a simulated etcd.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import Change
from kwire.metadata.image import MetadataImage

_T_co = TypeVar("_T_co", covariant=True)


class RevisionConflict(Exception):
    """Another commit came first: the caller has to decide again on the newer image."""


class RevisionGone(Exception):
    """The store no longer has every commit after a revision: the caller has to read the image."""


class GuardFailed(Exception):
    """The guard of a commit, a session or a term of the controller, no longer exists."""


class StoreUnusable(Exception):
    """The store can't be opened or read; the text names the file or address and a remedy."""


class StoreFull(StoreUnusable):
    """There is no room to open the store or to write to it; its content is unchanged."""


class NodeIdTaken(StoreUnusable):
    """Another process has a session for this node id, with other data directories."""


class OutcomeUnknown(KafkaError):
    """No answer came in time: the commit is in the store, or will never be.

    The commit of the next revision shows which.
    """

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, message)


class Commit(NamedTuple):
    """The changes between a revision and the one before it."""

    revision: int
    changes: Sequence[Change]


class Guard(NamedTuple):
    """Identifies a session, or a term of the controller: a key and the number of its creation.

    A key that is deleted and created again has another number.
    """

    key: str
    created: int


class Member(NamedTuple):
    """A broker that has a session: one process, with a unique ``incarnation``.

    ``locks`` names the lock files of the data directories, each with its machine. A process that
    holds the same lock proves that the earlier process is dead. The id of a directory proves
    nothing, because a copy of the directory has the same id.
    """

    node_id: int
    incarnation: str
    locks: tuple[str, ...] = ()


class Sessions(NamedTuple):
    """The sessions at one moment, by node id, and the controller's node id."""

    members: Mapping[int, tuple[Member, Guard]]
    controller: tuple[int, Guard] | None


class Stream(Protocol[_T_co]):
    """News from a store. A reader that stops before the end has to close the stream."""

    def __aiter__(self) -> AsyncIterator[_T_co]: ...

    async def __anext__(self) -> _T_co: ...

    async def aclose(self) -> object:
        """Stop listening."""


class Session(Protocol):
    """A broker's session, which the store keeps alive while ``run`` runs."""

    guard: Guard
    ttl_ms: int
    """How long the store keeps the session without a keepalive; the store may grant more than was
    asked for."""

    @property
    def kept_ms(self) -> float:
        """The time just before the last answered keepalive was sent.

        By the steady clock; infinite if the session lasts as long as the process.
        """

    @property
    def is_over(self) -> bool:
        """Whether the store has said that the session is over."""

    async def close(self) -> None:
        """End the session at once."""


class MetadataStore(Protocol):
    """A store of metadata; see the rules above.

    A store that can't be reached raises KafkaError (REQUEST_TIMED_OUT) with its addresses.
    """

    async def read(self) -> MetadataImage:
        """The newest image."""

    async def commit(
        self, expected_revision: int, changes: Sequence[Change], guard: Guard | None = None
    ) -> int:
        """Make ``changes`` durable as the next revision, and return its number.

        Raises RevisionConflict when the newest revision isn't ``expected_revision``, GuardFailed
        when ``guard`` doesn't exist, and KafkaError (KAFKA_STORAGE_ERROR, REQUEST_TIMED_OUT) when
        the commit can't be written. None of these errors changes the store, but OutcomeUnknown may.
        """

    def watch(self, revision: int) -> Stream[Commit]:
        """Every commit after ``revision``, future ones included.

        Raises RevisionGone if the store no longer has all of them.
        """
        ...

    async def begin_session(self, member: Member, ttl_ms: int) -> Session:
        """Begin the session of a broker; it replaces a session with the same node id and locks.

        Raises NodeIdTaken if another process has the node id.
        """

    def sessions(self) -> Stream[Sessions]:
        """The sessions as they are now, and again after each change; changes may be merged."""
        ...

    async def hold_controller(self, session: Session) -> Guard | None:
        """Become the controller until the session ends; None if another broker is it."""

    async def end(self, guard: Guard) -> None:
        """End a session, or a term of the controller, whose process is proven to be dead.

        A key that was created again in the meantime stays.
        """

    async def upkeep(self, image: MetadataImage, guard: Guard) -> None:
        """Tidy the store; the controller calls this every few seconds with its image."""

    async def run(self) -> None:
        """Keep the session alive and follow the store, forever; cancelling ends it.

        Raises StoreUnusable when the store is lost for good.
        """

    async def close(self) -> None:
        """Close the store; the commits stay in it."""
