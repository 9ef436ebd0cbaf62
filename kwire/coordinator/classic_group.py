"""A group of the classic protocol: its members, its generation, its state.

States, and the events that lead from one to the next::

    EMPTY → PREPARING_REBALANCE            a member joins
    PREPARING_REBALANCE → COMPLETING_…     every member has joined again, or the time is over
    COMPLETING_REBALANCE → STABLE          the leader has sent the assignment
    STABLE, COMPLETING_… → PREPARING_…     a member joins, leaves, or is silent for too long
    PREPARING_REBALANCE → EMPTY            no member is left

This module only keeps the state; ``classic_protocol`` decides. Source: ClassicGroup.
"""

from enum import Enum

from kwire.coordinator.classic_member import Member, Protocols
from kwire.coordinator.consumer_subscription import CONSUMER_PROTOCOL_TYPE, subscribed_topics
from kwire.coordinator.effects import Turn
from kwire.coordinator.group import Committer, GroupType
from kwire.coordinator.initial_rebalance_delay import RebalanceDelay, RebalanceRate
from kwire.coordinator.records import (
    CoordinatorRecord,
    GroupMetadataMember,
    GroupMetadataValue,
    group_metadata,
)
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.join_group import JoinGroupResponseMember

NEVER_MS = (1 << 63) - 1
"""A time later than any deadline."""


class GroupState(Enum):
    """Kafka's names of the states, as ListGroups and DescribeGroups show them.

    No group is ever DEAD here: DescribeGroups shows a group that doesn't exist as Dead.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


_BEFORE: dict[GroupState, frozenset[GroupState]] = {
    GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.PREPARING_REBALANCE: frozenset(
        {GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.STABLE}
    ),
    GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE}),
    GroupState.STABLE: frozenset({GroupState.COMPLETING_REBALANCE}),
    GroupState.DEAD: frozenset(),
}
"""The states that each state may follow. A group that is deleted is only forgotten."""


class ClassicGroup:
    """One group; deadlines are in ms, None if the group waits for nothing.

    ``state_since_ms`` is a time on the clock of the deadlines; ``state_date_ms`` is a date.
    """

    kind = GroupType.CLASSIC

    def __init__(self, group_id: str, turn: Turn) -> None:
        self.group_id = group_id
        self.state = GroupState.EMPTY
        self.state_since_ms = turn.now_ms
        self.state_date_ms = turn.date_ms
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static_members: dict[str, str] = {}
        self.pending_joins: dict[str, int] = {}
        self._supported: dict[str, int] = {}  # the number of members that offer each protocol
        self.pending_syncs: set[str] = set()
        self.rebalance_delay: RebalanceDelay | None = None
        self.is_first_rebalance = False
        self.announced = 0
        self.rebalance_rate = RebalanceRate()
        self.rebalance_deadline_ms: int | None = None
        self.sync_deadline_ms: int | None = None
        self.scheduled_ms: int | None = None

    def move_to(self, state: GroupState, turn: Turn) -> None:
        """Change the state of the group."""
        assert self.state in _BEFORE[state], (self.group_id, self.state, state)
        self.state = state
        self.state_since_ms = turn.now_ms
        self.state_date_ms = turn.date_ms

    @property
    def state_name(self) -> str:
        """Kafka's name of the group's state."""
        return self.state.value

    @property
    def protocol_type_name(self) -> str:
        """The protocol type; empty for a group that never had one."""
        return self.protocol_type or ""

    @property
    def may_expire(self) -> bool:
        """Whether the group has no members, and no client that is about to join."""
        return self.state is GroupState.EMPTY and not self.pending_joins

    def validate_member(self, member_id: str, instance_id: str | None) -> Member:
        """The member with these ids; KafkaError (UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID)."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
            if known != member_id:
                raise KafkaError(ErrorCode.FENCED_INSTANCE_ID)
        member = self.members.get(member_id)
        if member is None:
            raise KafkaError(ErrorCode.UNKNOWN_MEMBER_ID)
        return member

    def check_commit(self, committer: Committer, now_ms: int) -> None:
        """Check that a client may commit offsets, and renew the session of a member that may.

        Raises KafkaError: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION,
        REBALANCE_IN_PROGRESS. For transactions only the generation counts, because older clients
        don't name the member (KIP-447).
        """
        if committer.generation < 0 and self.state is GroupState.EMPTY:
            return
        claims_nothing = not committer.member_id and committer.instance_id is None
        if committer.is_transactional and committer.generation < 0 and claims_nothing:
            return
        member = self.validate_member(committer.member_id, committer.instance_id)
        if committer.generation != self.generation:
            raise KafkaError(ErrorCode.ILLEGAL_GENERATION)
        if committer.is_transactional:
            return
        if self.state is GroupState.COMPLETING_REBALANCE:
            raise KafkaError(ErrorCode.REBALANCE_IN_PROGRESS)
        member.renew_session(now_ms)

    def check_commit_of(
        self, committer: Committer, topic: str, topic_id: bytes, partition: int
    ) -> None:
        """Allow every partition: a client that may commit may commit all of them."""

    def check_fetch(self, member_id: str | None, member_epoch: int) -> None:
        """Allow every client to fetch the offsets of a classic group."""

    def check_delete(self) -> None:
        """KafkaError (NON_EMPTY_GROUP) while the group has members."""
        if self.state is not GroupState.EMPTY:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def check_offset_delete(self) -> None:
        """KafkaError (NON_EMPTY_GROUP) if kwire can't read which topics the members read."""
        if self.state is not GroupState.EMPTY and self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise KafkaError(ErrorCode.NON_EMPTY_GROUP)

    def subscribed_topics(self) -> frozenset[str] | None:
        """The topics that the members of a ``consumer`` group read; None if they are unreadable."""
        if self.state is GroupState.EMPTY:
            return frozenset()
        if self.protocol_type != CONSUMER_PROTOCOL_TYPE:
            return None
        return subscribed_topics(m.metadata(self.protocol) for m in self.members.values())

    def offset_age_since_ms(self, commit_timestamp_ms: int) -> int | None:
        """The time from which an offset's age counts: for an empty group, when it became empty.

        If an offset was committed after that, its age counts from the commit. Kafka ignores such a
        commit, so that an offset which an operator has just reset may vanish. While the group
        rebalances, no offset expires.
        """
        if self.state is GroupState.STABLE or not self.protocol_type:
            return commit_timestamp_ms
        if self.state is GroupState.EMPTY:
            return max(commit_timestamp_ms, self.state_date_ms)
        return None

    def tombstones(self) -> list[CoordinatorRecord]:
        """The record that deletes the group."""
        return [group_metadata(self.group_id, None)]

    def record_newcomer(self, now_ms: int) -> None:
        """Note a client that has joined or may join: a delayed rebalance may wait longer."""
        if self.rebalance_delay is not None:
            known = len(self.members) + len(self.pending_joins)
            self.rebalance_delay.record_newcomer(now_ms, self.announced, known)

    @property
    def all_have_joined(self) -> bool:
        """Whether every known member has joined again, and no pending member is expected."""
        return not self.pending_joins and all(m.joining is not None for m in self.members.values())

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of any member."""
        return max((m.rebalance_timeout_ms for m in self.members.values()), default=0)

    def add(self, member: Member, protocol_type: str) -> None:
        """Add a member; the first member leads, and decides the protocol type."""
        # ``replace_static`` replaces a member; here the counts of protocols would be wrong.
        assert member.member_id not in self.members, member.member_id
        if not self.members:
            self.protocol_type = protocol_type
        self.members[member.member_id] = member
        self._count_protocols(member.protocols, 1)
        if member.group_instance_id is not None:
            self.static_members[member.group_instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.pending_joins.pop(member.member_id, None)

    def remove(self, member_id: str) -> Member:
        """Remove a member; if it was the leader, another member leads."""
        member = self.members.pop(member_id)
        self._count_protocols(member.protocols, -1)
        self.pending_syncs.discard(member_id)
        if member.group_instance_id is not None:
            self.static_members.pop(member.group_instance_id, None)
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)
        assert (self.leader is None) == (not self.members), self.group_id
        return member

    def replace_static(self, old: Member, new: Member) -> None:
        """Replace a static member's former entry, after the member came back."""
        assert new.group_instance_id == old.group_instance_id is not None
        self.members = {
            (new.member_id if member is old else member_id): (new if member is old else member)
            for member_id, member in self.members.items()
        }
        assert self.members[new.member_id] is new, new.member_id
        self._count_protocols(old.protocols, -1)
        self._count_protocols(new.protocols, 1)
        self.static_members[old.group_instance_id] = new.member_id
        if self.leader == old.member_id:
            self.leader = new.member_id
        if old.member_id in self.pending_syncs:
            self.pending_syncs.remove(old.member_id)
            self.pending_syncs.add(new.member_id)

    def elect_joined_leader(self) -> bool:
        """Make a member that has joined the leader; return False if no member has joined."""
        leader = self.members.get(self.leader or "")
        if leader is not None and leader.joining is not None:
            return True
        joined = next((m.member_id for m in self.members.values() if m.joining is not None), None)
        if joined is not None:
            self.leader = joined
        return joined is not None

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Whether a client with these protocols may join: all members must share a protocol."""
        if not protocol_type or not protocols:
            return False
        if self.state is GroupState.EMPTY:
            return True
        if protocol_type != self.protocol_type:
            return False
        count = len(self.members)
        return not count or any(self._supported.get(name) == count for name, _ in protocols)

    def change_protocols(self, member: Member, protocols: Protocols) -> None:
        """Replace the protocols that a member offers."""
        self._count_protocols(member.protocols, -1)
        member.protocols = protocols
        self._count_protocols(protocols, 1)

    def _count_protocols(self, protocols: Protocols, by: int) -> None:
        for name in {name for name, _ in protocols}:
            self._supported[name] = self._supported.get(name, 0) + by
            assert 0 <= self._supported[name] <= len(self.members) + 1, (self.group_id, name)
            if not self._supported[name]:
                del self._supported[name]

    def _common_protocols(self) -> set[str]:
        count = len(self.members)
        return {name for name, having in self._supported.items() if having == count}

    def select_protocol(self) -> str:
        """The protocol that most members prefer among those that all members offer."""
        if len(self.members) == 1:
            [alone] = self.members.values()
            return alone.protocols[0][0]
        candidates = self._common_protocols()
        assert candidates, self.group_id  # ``supports`` lets nobody in who would leave none
        votes: dict[str, int] = {}
        for member in self.members.values():
            choice = member.vote(candidates)
            votes[choice] = votes.get(choice, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def joined_members(self) -> list[JoinGroupResponseMember]:
        """The members and their subscriptions, for the leader."""
        return [
            JoinGroupResponseMember(
                member_id=m.member_id,
                group_instance_id=m.group_instance_id,
                metadata=m.metadata(self.protocol),
            )
            for m in self.members.values()
        ]

    def next_deadline_ms(self) -> int | None:
        """The earliest deadline of the group."""
        # Without members, no rebalance settles: the deadline would pass again and again.
        delay = self.rebalance_delay if self.members else None
        due_ms = NEVER_MS
        if delay is not None:
            due_ms = delay.deadline_ms  # a shorter rebalance timeout doesn't end the wait
        elif self.rebalance_deadline_ms is not None:
            due_ms = self.rebalance_deadline_ms
        if self.sync_deadline_ms is not None:
            due_ms = min(due_ms, self.sync_deadline_ms)
        if self.pending_joins:
            due_ms = min(due_ms, *self.pending_joins.values())
        for member in self.members.values():
            if member.session_deadline_ms < due_ms and not member.counts_as_heard:
                due_ms = member.session_deadline_ms
        return None if due_ms == NEVER_MS else due_ms

    def to_record(self, assignments: dict[str, bytes]) -> GroupMetadataValue:
        """The generation with these assignments, in the form of its record."""
        return GroupMetadataValue(
            protocol_type=self.protocol_type or "",
            generation=self.generation,
            protocol=self.protocol,
            leader=self.leader,
            current_state_timestamp=self.state_date_ms,
            members=[
                GroupMetadataMember(
                    member_id=m.member_id,
                    group_instance_id=m.group_instance_id,
                    client_id=m.client_id,
                    client_host=m.client_host,
                    rebalance_timeout=m.rebalance_timeout_ms,
                    session_timeout=m.session_timeout_ms,
                    subscription=m.metadata(self.protocol),
                    assignment=assignments.get(m.member_id, b""),
                )
                for m in self.members.values()
            ],
        )

    def take_in(self, value: GroupMetadataValue, turn: Turn) -> None:
        """Take in a generation that was written: its assignment holds from now on."""
        for written in value.members:
            member = self.members.get(written.member_id)
            if member is not None:
                member.assignment = written.assignment
        if self.state is GroupState.COMPLETING_REBALANCE and value.members:
            self.move_to(GroupState.STABLE, turn)

    def state_record(self) -> GroupMetadataValue:
        """The present generation, in the form of its record."""
        return self.to_record({m.member_id: m.assignment for m in self.members.values()})

    @classmethod
    def from_record(cls, group_id: str, value: GroupMetadataValue, turn: Turn) -> "ClassicGroup":
        """The group that a record describes."""
        group = cls(group_id, turn)
        group.generation = value.generation
        group.protocol_type = value.protocol_type or None
        group.protocol = value.protocol
        for m in value.members:
            member = Member(
                m.member_id,
                m.group_instance_id,
                m.client_id,
                m.client_host,
                m.session_timeout if m.rebalance_timeout < 0 else m.rebalance_timeout,
                m.session_timeout,
                ((value.protocol or "", m.subscription),),
            )
            member.assignment = m.assignment
            group.add(member, value.protocol_type)
        group.leader = value.leader
        if value.members:
            group.state = GroupState.STABLE
        if value.current_state_timestamp >= 0:
            group.state_date_ms = value.current_state_timestamp
        return group
