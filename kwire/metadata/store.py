"""The interface of a metadata store, which keeps the changes of the cluster's metadata.

Rules:

- A commit writes changes as the next revision. It succeeds only if the store's newest revision is
  the one on which the changes were decided, and only if its guard still exists.
- The changes are durable when ``commit`` returns.
- All watchers see the same commits in the same order.
- A broker has at most one session. Other brokers see it in ``sessions`` until it is closed, gets no
  keepalive for too long, or is ended by somebody who knows that the process is dead.
- Safety never rests on a session: it only makes a failover quick. What protects a commit is its
  guard, which the store compares when it writes.
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
    """The session, or the hold of the controller, under which a commit was decided is over."""


class StoreUnusable(Exception):
    """The store can't be opened or read; the text names the file or address and a remedy."""


class StoreFull(StoreUnusable):
    """There is no room to open the store or to write to it; what is in it is as it was."""


class NodeIdTaken(StoreUnusable):
    """Another process has a session for this node id, with other data directories."""


class OutcomeUnknown(KafkaError):
    """No answer to a commit came in time: it is in the store, or will never be.

    The commit of the next revision shows which.
    """

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, message)


class Commit(NamedTuple):
    """The changes that made a revision out of the one before."""

    revision: int
    changes: Sequence[Change]


class Guard(NamedTuple):
    """A session, or the hold of the controller: the key, and the number of the key's creation.

    A key that ends and is made again has another number.
    """

    key: str
    created: int


class Member(NamedTuple):
    """A broker that has a session: one process, which ``incarnation`` names for all time.

    ``locks`` name the lock files of its data directories: a file of one running machine. Whoever
    holds the same lock proves that the process before it is dead. The id of a directory proves
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
    """What a store tells; whoever stops listening before the end closes it."""

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
        """The time just before the last keepalive was sent that the store answered.

        By the steady clock; infinite where the session can't end before the process.
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
        """Begin the session of a broker; it replaces one of the same node id and locks.

        Raises NodeIdTaken if another process has the node id.
        """

    def sessions(self) -> Stream[Sessions]:
        """The sessions as they are now, and again after each change; changes may be merged."""
        ...

    async def hold_controller(self, session: Session) -> Guard | None:
        """Become the controller, until the session ends; None where another broker is."""

    async def end(self, guard: Guard) -> None:
        """End a session, or a hold of the controller, whose process is proven to be dead.

        A key that was made again since stays.
        """

    async def upkeep(self, image: MetadataImage, guard: Guard) -> None:
        """Tidy the store; the controller calls this every few seconds with its image."""

    async def run(self) -> None:
        """Keep the session alive and follow the store, for ever; cancelling ends it.

        Raises StoreUnusable when the store is lost for good.
        """

    async def close(self) -> None:
        """Close the store; the commits stay in it."""
