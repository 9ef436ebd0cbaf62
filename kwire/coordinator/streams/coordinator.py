"""The heartbeats of members of streams groups, in the frame of ``ModernGroups``.

Rules:

- The first member gives the group its topology. Members with another topology of the same or a
  later epoch are refused; members with an earlier epoch are told that they are stale.
- A classic group without members becomes a streams group when a member of one joins, and the other
  way round. Groups of other kinds don't change.
- A heartbeat may find that internal topics are missing: ``missing_topics`` says which, for the
  broker to create them.

Source: GroupMetadataManager of Kafka 4.4 (the streamsGroup… methods); KIP-1071.
"""

from collections.abc import Callable, Mapping

from kwire.coordinator.classic_group import ClassicGroup
from kwire.coordinator.consumer.timers import Timer
from kwire.coordinator.effects import Turn
from kwire.coordinator.group import GroupRegistry
from kwire.coordinator.heartbeat_checks import check_instance_is_free, check_room
from kwire.coordinator.joining import Client
from kwire.coordinator.modern_group import JOINING_EPOCH, STATIC_LEAVING_EPOCH
from kwire.coordinator.modern_groups import ModernGroups
from kwire.coordinator.streams.changes import StreamsChanges
from kwire.coordinator.streams.endpoints import partitions_by_endpoint
from kwire.coordinator.streams.group import StreamsGroup, Topology
from kwire.coordinator.streams.heartbeat import (
    check_epoch,
    check_request,
    described,
    reported_tasks,
    show_tasks,
    statuses,
    take_task_offsets,
    topology_value,
)
from kwire.coordinator.streams.member import (
    MemberState,
    StreamsMember,
)
from kwire.coordinator.streams.reconciliation import check_state
from kwire.coordinator.streams.replaying import STREAMS_GROUPS
from kwire.coordinator.streams.topology.configured import InternalTopic
from kwire.coordinator.streams.update import StreamsUpdate, check_tasks
from kwire.coordinator.surroundings import Surroundings
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)


class StreamsGroups(
    ModernGroups[
        StreamsGroup, StreamsUpdate, StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
    ]
):
    """The streams groups of one coordinator; ``has_offsets`` says that a group id has offsets."""

    replaying = STREAMS_GROUPS

    def __init__(
        self,
        registry: GroupRegistry,
        surroundings: Surroundings,
        has_offsets: Callable[[str], bool],
    ) -> None:
        super().__init__(registry, surroundings, StreamsChanges(registry, surroundings))
        self._has_offsets = has_offsets

    def group(self, group_id: str, kind: str = "Group") -> StreamsGroup:
        """A streams group; KafkaError (GROUP_ID_NOT_FOUND)."""
        group = self._registry.groups.get(group_id)
        if isinstance(group, StreamsGroup):
            return group
        text = f"{kind} {group_id} not found."
        if group is not None or self._has_offsets(group_id):
            text = f"Group {group_id} is not a streams group."
        raise KafkaError(ErrorCode.GROUP_ID_NOT_FOUND, text)

    def missing_topics(self, group_id: str) -> Mapping[str, InternalTopic]:
        """The internal topics of a group that don't exist, as far as the group has looked."""
        group = self._registry.groups.get(group_id)
        if not isinstance(group, StreamsGroup) or group.unrecorded.configured is None:
            return {}
        return group.unrecorded.configured.result.internal_topics_to_create

    def assignor_of(self, group_id: str) -> str:
        """The name of the assignor that shares the group's tasks out."""
        return self._around.streams_settings_of(group_id).assignor

    def _check(self, request: StreamsGroupHeartbeatRequest, client: Client) -> None:
        check_request(request)

    # A member joins or stays

    def _beat(
        self, request: StreamsGroupHeartbeatRequest, client: Client, turn: Turn
    ) -> StreamsGroupHeartbeatResponse:
        joins = request.member_epoch == JOINING_EPOCH
        reported = reported_tasks(request)
        update = self._open_group(request.group_id, turn, joins=joins)
        original = update.original
        if joins:
            check_room(original, request.member_id, request.instance_id, update.settings.max_size)
            before = self._joining_member(update, request)
        else:
            before = original.validate_member(request.member_id, request.instance_id)
        check_epoch(before, request.member_epoch, reported)
        check_state(before, reported)
        is_certain = self._describe(update, before, request, client)
        member = update.group.member(before.member_id)
        _take_topology(update, request)
        update.look()
        configured = update.group.unrecorded.configured
        assert configured is not None, request.group_id
        check_tasks(configured.result, reported)
        take_task_offsets(update.group, member.member_id, request, configured.result)
        if not original.members:
            update.delay_first_assignment()
        self._changes.go_on(update, is_certain=is_certain)
        member = update.reconcile(member, reported)
        if member != before:
            _time_revocation(update, member)
        self.renew_session(update, member)
        if request.shutdown_application:
            self._shut_down(update, member.member_id)
        tells = self._tell_endpoint(update, before, member)
        self._changes.finish(update)
        response = self._answer(request, client, update, member)
        # A member whose last answer was lost reports other tasks than it was given.
        if joins or member.assigned != before.assigned or not member.assigned.is_told_by(reported):
            show_tasks(response, member)
        if tells or response.endpoint_information_epoch != request.endpoint_information_epoch:
            response.partitions_by_user_endpoint = partitions_by_endpoint(
                update.group, update.topics
            )
        return response

    def _joining_member(
        self, update: StreamsUpdate, request: StreamsGroupHeartbeatRequest
    ) -> StreamsMember:
        """The member that joins: a new one, a known one, or one in place of a static member."""
        in_place = update.group.static_member(request.instance_id)
        if in_place is None:
            known = update.group.members.get(request.member_id)
            return known or StreamsMember(request.member_id)
        check_instance_is_free(in_place, request.member_id)
        update.note(f"static member {request.instance_id} is back as {request.member_id}")
        return update.replace(in_place, request.member_id)

    def _describe(
        self,
        update: StreamsUpdate,
        before: StreamsMember,
        request: StreamsGroupHeartbeatRequest,
        client: Client,
    ) -> bool:
        """Write a member's changed description; returns whether it takes another assignment."""
        about = described(before.about, request, client)
        is_new = before.member_id not in update.group.members
        if is_new:
            update.note(f"{before.member_id} joins from process {about.process_id}")
        if not is_new and about == before.about:
            return False
        update.describe(before._replace(about=about))
        return about.instance_id is None or not about.assigns_as(before.about)

    def _shut_down(self, update: StreamsUpdate, member_id: str) -> None:
        unrecorded = update.group.unrecorded
        if unrecorded.shutdown_by is None:
            update.note(f"{member_id} asks the whole application to shut down")
            unrecorded.shutdown_by = member_id

    def _answer(
        self,
        request: StreamsGroupHeartbeatRequest,
        client: Client,
        update: StreamsUpdate,
        member: StreamsMember,
    ) -> StreamsGroupHeartbeatResponse:
        unrecorded, settings = update.group.unrecorded, update.settings
        configured = unrecorded.configured
        assert configured is not None, request.group_id
        response = StreamsGroupHeartbeatResponse(
            member_id=member.member_id,
            member_epoch=member.epoch,
            heartbeat_interval_ms=self._interval_ms(update),
            task_offset_interval_ms=settings.task_offset_interval_ms,
            acceptable_recovery_lag=settings.acceptable_recovery_lag,
            status=statuses(update, member, configured.result, client.api_version),
        )
        response.endpoint_information_epoch = unrecorded.endpoint_epoch
        return response

    def _tell_endpoint(
        self, update: StreamsUpdate, before: StreamsMember, member: StreamsMember
    ) -> bool:
        """Have all members told of an endpoint, if it or what it answers about has changed.

        Returns whether it has. A new group stays at its first epoch, 0, as in Kafka.
        """
        endpoint = member.about.user_endpoint
        is_new = endpoint is not None and member.assigned != before.assigned
        is_new = is_new or endpoint != before.about.user_endpoint
        if is_new and self._registry.groups.get(update.group.group_id) is update.original:
            update.group.unrecorded.endpoint_epoch += 1
        return is_new

    # A member leaves

    def _leave(
        self, request: StreamsGroupHeartbeatRequest, turn: Turn
    ) -> StreamsGroupHeartbeatResponse:
        original = self.group(request.group_id)
        update = self._changes.start_update(original, turn)
        # As in Kafka, whoever may read the group says so, even if the member isn't there any more.
        if request.shutdown_application:
            self._shut_down(update, request.member_id)
        member = original.validate_member(request.member_id, request.instance_id)
        if request.member_epoch == STATIC_LEAVING_EPOCH:
            update.settle(member.away())
            update.note(f"static member {request.instance_id} is away")
            self._changes.finish(update)
        else:
            self.fence(update, {member.member_id: "it left"})
        return StreamsGroupHeartbeatResponse(
            member_id=member.member_id, member_epoch=request.member_epoch, status=[]
        )

    def fence(self, update: StreamsUpdate, gone: dict[str, str]) -> None:
        """Remove members, and share their tasks out. ``gone`` holds the reasons."""
        super().fence(update, gone)
        if not update.group.members:
            update.group.unrecorded.shutdown_by = None

    # Steps of all operations

    def _open_group(self, group_id: str, turn: Turn, *, joins: bool) -> StreamsUpdate:
        """The group to work on; if a member ``joins``, it may be created or converted.

        Raises KafkaError: GROUP_ID_NOT_FOUND, GROUP_MAX_SIZE_REACHED.
        """
        known = self._registry.groups.get(group_id)
        if not joins or (known is not None and not isinstance(known, ClassicGroup)):
            return self._changes.start_update(self.group(group_id, "Streams group"), turn)
        if known is None:
            self._registry.check_room()
        elif known.members:
            return self._changes.start_update(self.group(group_id), turn)
        else:
            turn.effects.records += known.tombstones()
        return self._changes.start_update(StreamsGroup(group_id), turn)

    def _begin_member(self, update: StreamsUpdate, member: StreamsMember) -> None:
        super()._begin_member(update, member)
        _time_revocation(update, member)


def _take_topology(update: StreamsUpdate, request: StreamsGroupHeartbeatRequest) -> None:
    """Give a new group its topology.

    Raises KafkaError (INVALID_REQUEST) for another topology than the group has.
    """
    known = update.group.topology
    if request.topology is None:
        if known is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The group has no topology.")
        return
    given = topology_value(request.topology)
    if known is None:
        update.set_topology(Topology(given))
        update.note(f"{request.member_id} brings the topology of epoch {given.epoch}")
    elif known.epoch <= given.epoch and not known.is_same(given):
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Topology updates are not supported yet.")


def _time_revocation(update: StreamsUpdate, member: StreamsMember) -> None:
    """Set a timer for tasks that a member gives back, for as long as the member asked for."""
    timers = update.group.timers
    if member.state is not MemberState.UNREVOKED_TASKS:
        timers.cancel(member.member_id, Timer.REBALANCE)
        return
    deadline_ms = update.turn.now_ms + max(0, member.about.rebalance_timeout_ms)
    timers.set(member.member_id, Timer.REBALANCE, deadline_ms, member.epoch)
