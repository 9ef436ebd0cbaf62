"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup, passed to the code for the group's kind.

Rules:

- Members of the classic protocol may be in a consumer group as well as in a classic group.
- A classic group may replace a consumer group or a streams group without members (any more).

Source: GroupMetadataManager.classicGroupJoin, …Sync, …Heartbeat and …Leave of Kafka 4.3.
"""

from kwire.coordinator.classic_groups import MAX_ID_BYTES, ClassicGroups
from kwire.coordinator.consumer.classic_members import ClassicMembers
from kwire.coordinator.consumer.group import ConsumerGroup
from kwire.coordinator.effects import Effects, Waiter
from kwire.coordinator.group import EMPTY_STATE, Group, GroupRegistry, GroupType
from kwire.coordinator.joining import Client
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.join_group import JoinGroupRequest
from kwire.protocol.messages.leave_group import MemberIdentity
from kwire.protocol.messages.sync_group import SyncGroupRequest

_REPLACED = (GroupType.CONSUMER, GroupType.STREAMS)
"""The kinds of groups that a classic group replaces when they are empty."""


class Membership:
    """The requests of members of the classic protocol. Each method raises what its kind raises."""

    def __init__(
        self, registry: GroupRegistry, classic: ClassicGroups, in_consumer: ClassicMembers
    ) -> None:
        self._registry = registry
        self._classic = classic
        self._in_consumer = in_consumer

    def _consumer_group(self, group_id: str) -> ConsumerGroup | None:
        group = self._registry.groups.get(group_id)
        return group if isinstance(group, ConsumerGroup) else None

    def join(
        self, request: JoinGroupRequest, client: Client, waiter: Waiter, now_ms: int
    ) -> Effects:
        """Join a member; it is answered when its group is ready.

        Raises KafkaError: INVALID_SESSION_TIMEOUT, and INVALID_REQUEST for a client id that is too
        long for an id.
        """
        known = self._registry.groups.get(request.group_id)
        if known is not None and known.kind in _REPLACED and known.state_name == EMPTY_STATE:
            return self._join_instead(known, request, client, waiter, now_ms)
        group = self._consumer_group(request.group_id)
        if group is None:
            return self._classic.join(request, client, waiter, now_ms)
        settings = self._registry.settings
        timeout_ms = request.session_timeout_ms
        if not settings.min_session_timeout_ms <= timeout_ms <= settings.max_session_timeout_ms:
            raise KafkaError(ErrorCode.INVALID_SESSION_TIMEOUT)
        new_id = f"{request.group_instance_id or client.client_id}-{self._registry.new_id()}"
        if len(new_id.encode()) > MAX_ID_BYTES:
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        turn = self._registry.turn(now_ms)
        return self._in_consumer.join(group, request, client, new_id, waiter, turn)

    def _join_instead(
        self,
        group: Group,
        request: JoinGroupRequest,
        client: Client,
        waiter: Waiter,
        now_ms: int,
    ) -> Effects:
        """Put a classic group in the place of an empty group of another kind."""
        groups = self._registry.groups
        del groups[group.group_id]
        try:
            effects = self._classic.join(request, client, waiter, now_ms)
        except KafkaError:
            groups[group.group_id] = group
            raise
        effects.records[:0] = group.tombstones()
        # This undo runs last, when the classic group is removed.
        effects.undo.insert(0, lambda _: self._put_back(group))
        return effects

    def _put_back(self, group: Group) -> None:
        self._registry.groups.setdefault(group.group_id, group)

    def sync(self, request: SyncGroupRequest, waiter: Waiter, now_ms: int) -> Effects:
        """Answer a member with its assignment."""
        group = self._consumer_group(request.group_id)
        if group is None:
            return self._classic.sync(request, waiter, now_ms)
        return self._in_consumer.sync(group, request, waiter, self._registry.turn(now_ms))

    def heartbeat(self, request: HeartbeatRequest, now_ms: int) -> None:
        """Renew a member's session; a KafkaError is the answer, also to tell of a rebalance."""
        group = self._consumer_group(request.group_id)
        if group is None:
            self._classic.heartbeat(request, now_ms)
        else:
            self._in_consumer.heartbeat(group, request, self._registry.turn(now_ms))

    def leave(
        self, group_id: str, leaving: list[MemberIdentity], waiter: Waiter, now_ms: int
    ) -> Effects:
        """Remove members together; each has its own result in a LeaveGroupResponse."""
        group = self._consumer_group(group_id)
        if group is None:
            return self._classic.leave(group_id, leaving, waiter, now_ms)
        return self._in_consumer.leave(group, leaving, waiter, self._registry.turn(now_ms))
