"""Members of one classic group that come, go and die: S22, each partition has one owner.

Rules:

- A generation gives a partition to one member, whoever coordinates, and never to another one.
- A member commits offsets that rise within a generation and from one to the next. So an offset that
  was acknowledged or read goes back only if a coordinator takes a commit of an old generation.
- A member that doesn't know what became of its commit joins as a new one: its old commit may still
  arrive, and belongs to an old generation then.
"""

import trio

from kwire.client.cluster import check
from kwire.client.errors import ClientError
from kwire.client.group_offsets import commit_offsets, committed_offsets
from kwire.client.leaders import TopicPartition
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from tests.simulation.classic_members import ClassicMember
from tests.simulation.workloads import FAILURES, PARTITIONS
from tests.simulation.world import World

SESSION_MS = 6000
REBALANCE_MS = 3000
PER_GENERATION = 1_000_000
GROUP = "shared"


class Ownership:
    """What all members of a group know together: who owned what, and what was committed."""

    def __init__(self) -> None:
        self.owners: dict[tuple[int, int], str] = {}
        self.known = dict.fromkeys(range(PARTITIONS), 0)
        self.last = dict.fromkeys(range(PARTITIONS), 0)


class Mate(ClassicMember):
    """One of some members of a group, which share an ``Ownership``."""

    def __init__(self, world: World, name: str, topic: str, shared: Ownership) -> None:
        super().__init__(world, name, GROUP)
        self.topic = topic
        self.shared = shared
        self._owned: list[int] | None = None

    async def step(self) -> None:
        """Join, or do what members do; sometimes leave or die."""
        try:
            if self._owned is None:
                await self._begin()
            elif self.random.random() < 0.05:
                await self._leave()
            elif self.random.random() < 0.05:
                self._forget()  # as if the process had died
            elif self._owned and self.random.random() < 0.5:
                await self._commit(self.random.choice(self._owned))
            elif self.random.random() < 0.3:
                await self._read()
            else:
                await self._beat()
            self.done += 1
        except KafkaError as error:
            if error.code is ErrorCode.UNKNOWN_MEMBER_ID:
                self._forget()
            elif error.code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION):
                self._owned = None
        except ClientError:
            pass

    def _forget(self) -> None:
        self.member_id, self._owned = "", None

    async def _begin(self) -> None:
        """Join and sync; a member may die at any moment of that."""
        dies = self.random.random() < 0.1
        with trio.move_on_after(self.random.random() * 0.1 if dies else float("inf")) as scope:
            members = await self.join(SESSION_MS, REBALANCE_MS)
            self._owned = await self._sync(members)
        if scope.cancelled_caught:
            self._forget()

    async def _sync(self, members: list[str]) -> list[int]:
        """The partitions that this member owns in its generation."""
        self.random.shuffle(members)
        shares = {
            member: bytes(range(number, PARTITIONS, len(members)))
            for number, member in enumerate(members)
        }
        assigned = await self.sync(shares)
        for partition in assigned:
            key = self.generation, partition
            owner = self.shared.owners.setdefault(key, self.member_id)
            assert owner == self.member_id, (
                f"group {self.group}: {partition} of generation {self.generation} has two owners"
            )
        return list(assigned)

    async def _commit(self, index: int) -> None:
        shared, generation = self.shared, self.generation
        offset = max(shared.last[index], generation * PER_GENERATION) + 1
        if offset // PER_GENERATION != generation:
            self._owned = None  # another one owns it by now
            return
        shared.last[index] = offset
        offsets = {TopicPartition(self.topic, index): offset}
        try:
            await commit_offsets(self.cluster, self.group, offsets, self.member_id, generation)
        except FAILURES:
            self._forget()
            raise
        shared.known[index] = max(shared.known[index], offset)

    async def _read(self) -> None:
        """No offset is smaller than one that was acknowledged or read before."""
        before = dict(self.shared.known)
        found = await committed_offsets(self.cluster, self.group)
        for index, least in before.items():
            offset = found.get(TopicPartition(self.topic, index), 0)
            assert offset >= least, f"group {self.group}: {index} goes from {least} to {offset}"
            self.shared.known[index] = max(self.shared.known[index], offset)

    async def _beat(self) -> None:
        check(await self.heartbeat(), self.name)

    async def _leave(self) -> None:
        member = MemberIdentity(member_id=self.member_id)
        self._forget()
        request = LeaveGroupRequest(group_id=self.group, members=[member])
        await self.cluster.ask_coordinator(
            self.group, request, LeaveGroupResponse, lambda answer: [answer.error_code]
        )

    async def check(self) -> None:
        """What was acknowledged or read is there."""
        await self._read()


def mates(world: World, topic: str, names: tuple[str, ...]) -> list[Mate]:
    """The members of one group."""
    shared = Ownership()
    return [Mate(world, name, topic, shared) for name in names]
