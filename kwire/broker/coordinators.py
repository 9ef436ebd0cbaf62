"""A broker's coordinators, of groups, transactional ids and share partitions' states.

Rules:

- Each is loaded when it is first needed: a broker whose clients use no groups imports none.
- Once loaded, they run until the broker ends. When the broker stops, they refer their clients to
  another broker; one that is loaded later does so from the beginning.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from kwire.metadata.changes import Change, PartitionsAdded, PartitionsChanged, TopicDeleted

if TYPE_CHECKING:
    from kwire.broker.groups import Groups
    from kwire.broker.partition_coordinators import PartitionCoordinators
    from kwire.broker.share_states import ShareStates
    from kwire.broker.transactions import Transactions, TransactionsBroker

_MOVES = (PartitionsChanged, PartitionsAdded, TopicDeleted)
"""Changes after which this broker may lead other partitions."""

_Kind = TypeVar("_Kind", bound="PartitionCoordinators[Any]")


class Coordinators:
    """The coordinators of one broker; iterating gives the kinds that are loaded."""

    def __init__(self, broker: "TransactionsBroker") -> None:
        self._broker = broker
        self._loaded: list[PartitionCoordinators[Any]] = []
        self._is_closed = False

    def __iter__(self) -> "Iterator[PartitionCoordinators[Any]]":
        return iter(self._loaded)

    @cached_property
    def groups(self) -> "Groups":
        """The groups of this broker."""
        from kwire.broker.groups import Groups

        return self._start_coordinators(Groups(self._broker))

    @cached_property
    def transactions(self) -> "Transactions":
        """The transactional ids of this broker."""
        from kwire.broker.transactions import Transactions

        return self._start_coordinators(Transactions(self._broker))

    @cached_property
    def share_states(self) -> "ShareStates":
        """The states of share partitions whose coordinator is this broker."""
        from kwire.broker.share_states import ShareStates

        return self._start_coordinators(ShareStates(self._broker))

    def _start_coordinators(self, coordinators: _Kind) -> _Kind:
        self._broker.background.start_soon(coordinators.run)
        self._loaded.append(coordinators)
        if self._is_closed:
            coordinators.close()
        return coordinators

    def close(self) -> None:
        """Refer clients that ask or wait for a coordinator to another broker."""
        self._is_closed = True
        for coordinators in self._loaded:
            coordinators.close()

    def wake_if_due(self) -> None:
        """Wake each kind whose next task is due by the steady clock."""
        for coordinators in self._loaded:
            coordinators.wake_if_due()

    def look_again(self) -> None:
        """Have each kind look which partitions this broker leads."""
        for coordinators in self._loaded:
            coordinators.look_again()

    def follow(self, changes: Sequence[Change]) -> None:
        """Have each kind look again if this broker may lead other partitions after the changes."""
        if self._loaded and any(isinstance(change, _MOVES) for change in changes):
            self.look_again()

    async def forget_deleted_topics(self) -> None:
        """Have each kind delete what it keeps about deleted topics."""
        for coordinators in list(self._loaded):
            await coordinators.forget_deleted_topics()
