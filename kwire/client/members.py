"""A member of a consumer group: joins, keeps its session, commits, and leaves.

Both protocols have the same use::

    async with open_member(cluster, group, topics, protocol) as member:
        partitions = await member.settle()      # joins, and waits for an assignment
        … consume while not member.is_moved …
        await member.commit(positions)
        partitions = await member.settle()      # gives up what it lost, takes what it got

Rules:

- ``is_moved`` becomes true when the assignment is about to change. The caller commits what it has
  consumed, and calls ``settle``: no partition is given up before that.
- Heartbeats are sent by a task of the block, so consuming may take as long as it likes.
- At the end of the block the member leaves, so the group doesn't wait for a session to end.
- A member that the group has thrown out joins again as a new one, in ``settle``.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Protocol

import trio

from kwire.client.classic_member import ClassicMember
from kwire.client.cluster import Cluster
from kwire.client.consumer_member import ConsumerMember
from kwire.client.errors import ClientError
from kwire.client.group_offsets import commit_offsets
from kwire.client.leaders import TopicPartition, first_error
from kwire.errors import KafkaError

LEAVE_TIMEOUT_S = 5.0


class Member(Protocol):
    """The methods of the members of both protocols."""

    is_moved: bool

    async def settle(self) -> list[TopicPartition]:
        """Join or join again; the partitions to consume, which may be none."""

    async def wait_moved(self) -> None:
        """Wait until ``is_moved``."""

    async def keep_alive(self) -> None:
        """Send heartbeats until cancelled."""

    async def leave(self) -> None:
        """Leave the group."""

    def identity(self) -> tuple[str, int]:
        """Member id, and generation or member epoch, for commits."""


class GroupMember:
    """A member whose block is open; see the rules above."""

    def __init__(self, cluster: Cluster, group: str, member: Member) -> None:
        self._cluster = cluster
        self._group = group
        self._member = member

    @property
    def is_moved(self) -> bool:
        """Whether ``settle`` has to be called."""
        return self._member.is_moved

    async def wait_moved(self) -> None:
        """Wait until ``settle`` has to be called."""
        await self._member.wait_moved()

    async def settle(self) -> list[TopicPartition]:
        """The partitions to consume now; KafkaError if the group refuses the member."""
        return await self._member.settle()

    async def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        """Commit the offsets to read next; KafkaError if another member has the partitions now."""
        if positions:
            await commit_offsets(self._cluster, self._group, positions, *self._member.identity())


@asynccontextmanager
async def open_member(
    cluster: Cluster,
    group: str,
    topics: Sequence[str],
    *,
    protocol: str = "classic",
    session_timeout_ms: int = 45_000,
) -> AsyncIterator[GroupMember]:
    """A member of ``group`` for the time of a block; ``protocol`` is classic or consumer."""
    member: Member
    if protocol == "consumer":
        member = ConsumerMember(cluster, group, topics)
    else:
        member = ClassicMember(cluster, group, topics, session_timeout_ms)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(member.keep_alive)
            try:
                yield GroupMember(cluster, group, member)
            finally:
                with (
                    trio.move_on_after(LEAVE_TIMEOUT_S, shield=True),
                    suppress(ClientError, KafkaError),
                ):
                    await member.leave()
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group_of_errors:
        raise first_error(group_of_errors) from group_of_errors
