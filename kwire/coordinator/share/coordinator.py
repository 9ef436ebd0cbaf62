"""The heartbeats of members of share groups, in the frame of ``ModernGroups``.

Rule: a group of another kind never becomes a
share group, not even if it is empty.

Source: GroupMetadataManager of Kafka 4.4 (the shareGroup… methods).
"""

from collections.abc import Callable, Iterator

from kwire.coordinator.effects import Effects, Turn
from kwire.coordinator.group import GroupRegistry
from kwire.coordinator.heartbeat_checks import check_room
from kwire.coordinator.joining import Client
from kwire.coordinator.modern_group import JOINING_EPOCH
from kwire.coordinator.modern_groups import ModernGroups
from kwire.coordinator.share.changes import ShareChanges
from kwire.coordinator.share.group import ShareGroup
from kwire.coordinator.share.heartbeat import (
    assignment_of,
    check_epoch,
    check_request,
    described,
    is_full,
)
from kwire.coordinator.share.member import ShareMember
from kwire.coordinator.share.offsets import ShareOffsets
from kwire.coordinator.share.replaying import SHARE_GROUPS
from kwire.coordinator.share.update import ShareUpdate
from kwire.coordinator.surroundings import Surroundings
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)


class ShareGroups(
    ModernGroups[ShareGroup, ShareUpdate, ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse]
):
    """The share groups of one coordinator; ``has_offsets`` says that a group id has offsets."""

    replaying = SHARE_GROUPS

    def __init__(
        self,
        registry: GroupRegistry,
        surroundings: Surroundings,
        has_offsets: Callable[[str], bool],
    ) -> None:
        self._changes: ShareChanges = ShareChanges(registry, surroundings)
        super().__init__(registry, surroundings, self._changes)
        self._has_offsets = has_offsets
        self.offsets = ShareOffsets(registry, self._changes)

    def group(self, group_id: str) -> ShareGroup:
        """A share group; KafkaError (GROUP_ID_NOT_FOUND)."""
        group = self._registry.groups.get(group_id)
        if isinstance(group, ShareGroup):
            return group
        is_unknown = group is None and not self._has_offsets(group_id)
        what = "not found" if is_unknown else "is not a share group"
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {group_id} {what}.")

    def group_or_new(self, group_id: str) -> ShareGroup:
        """A share group, which is new if there is no group of this id; KafkaError."""
        if group_id in self._registry.groups or self._has_offsets(group_id):
            return self.group(group_id)
        self._registry.check_room()
        return ShareGroup(group_id)

    # Heartbeats

    def _check(self, request: ShareGroupHeartbeatRequest, client: Client) -> None:
        check_request(request)

    def _beat(
        self, request: ShareGroupHeartbeatRequest, client: Client, turn: Turn
    ) -> ShareGroupHeartbeatResponse:
        joins = request.member_epoch == JOINING_EPOCH
        member_id = request.member_id
        original = self.group_or_new(request.group_id) if joins else self.group(request.group_id)
        update = self._changes.start_update(original, turn)
        check_room(original, member_id, None, update.settings.max_size)
        is_new = joins and member_id not in original.members
        before = ShareMember(member_id) if is_new else original.member(member_id)
        check_epoch(before, request.member_epoch)
        member = described(before, request, client)
        resubscribed = member.topics != before.topics
        if not member.is_described_as(before):
            update.describe(member)
            verb = "joins and " if is_new else ""
            update.note(f"{member_id} {verb}subscribes to {', '.join(member.topics)}")
        may_lack_states = self._changes.go_on(update, is_certain=resubscribed)
        member = update.reconcile(member, resubscribed=resubscribed)
        if may_lack_states:
            self._changes.ask_for_states(update)
        self.renew_session(update, member)
        self._changes.finish(update)
        shows_all = is_full(request) or member.assigned != before.assigned
        return ShareGroupHeartbeatResponse(
            member_id=member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._interval_ms(update),
            assignment=assignment_of(member) if shows_all else None,
        )

    def _leave(
        self, request: ShareGroupHeartbeatRequest, turn: Turn
    ) -> ShareGroupHeartbeatResponse:
        original = self.group(request.group_id)
        member = original.member(request.member_id)
        update = self._changes.start_update(original, turn)
        self.fence(update, {member.member_id: "it left"})
        return ShareGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch
        )

    def forget_topics(self, now_ms: int) -> Iterator[Effects]:
        """Forget the states of deleted topics, group by group.

        The caller carries out the effects of a step before the next step.
        """
        for group in list(self._registry.groups.values()):
            if isinstance(group, ShareGroup):
                yield self.offsets.forget_topics(group, self._around.topics(), now_ms)
