"""A member of a classic group: JoinGroup, SyncGroup, Heartbeat, LeaveGroup.

Rules:

- The first JoinGroup of a new member is answered with MEMBER_ID_REQUIRED and an id (KIP-394).
- The leader of a generation assigns all partitions, with the assignor ``range``.
- If a heartbeat gets REBALANCE_IN_PROGRESS, or an error because the group has removed the member,
  the member sets ``is_moved``. ``settle`` then joins the next generation.
"""

from collections.abc import Sequence

import trio

from kwire.client.cluster import Cluster, check
from kwire.client.errors import ClientError
from kwire.client.leaders import TopicPartition
from kwire.client.range_assignor import assign_ranges
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.codec import decoder, encode
from kwire.protocol.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
)
from kwire.protocol.messages.consumer_protocol import TopicPartition as AssignedTopic
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    JoinGroupResponseMember,
)
from kwire.protocol.messages.leave_group import (
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
)
from kwire.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

REBALANCE_TIMEOUT_MS = 60_000
_PROTOCOL_TYPE = "consumer"
_ASSIGNOR = "range"
_VERSION_BYTES = 2
_NO_GENERATION = -1

_JOIN_AGAIN = {
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.ILLEGAL_GENERATION,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.MEMBER_ID_REQUIRED,
}


class ClassicMember:
    """One member; see ``kwire.client.members`` for its use."""

    def __init__(
        self, cluster: Cluster, group: str, topics: Sequence[str], session_timeout_ms: int
    ) -> None:
        self.is_moved = True
        self._cluster = cluster
        self._group = group
        self._topics = list(topics)
        self._session_timeout_ms = session_timeout_ms
        self._member_id = ""
        self._generation = _NO_GENERATION
        self._change = trio.Condition()

    def identity(self) -> tuple[str, int]:
        """Member id and generation."""
        return self._member_id, self._generation

    async def wait_moved(self) -> None:
        """Wait until ``is_moved``."""
        async with self._change:
            while not self.is_moved:
                await self._change.wait()

    async def settle(self) -> list[TopicPartition]:
        """Join the next generation; returns the partitions that its leader assigns; KafkaError."""
        while True:
            joined = await self._join()
            if joined is not None:
                assignment = await self._sync(joined)
                if assignment is not None:
                    async with self._change:
                        self.is_moved = False
                        self._change.notify_all()
                    return assignment

    async def _join(self) -> JoinGroupResponse | None:
        """The answer to JoinGroup, or None if the member has to join again."""
        subscription = ConsumerProtocolSubscription(topics=self._topics)
        metadata = (0).to_bytes(_VERSION_BYTES) + encode(subscription, 0)
        request = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=self._session_timeout_ms,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            member_id=self._member_id,
            protocol_type=_PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=_ASSIGNOR, metadata=metadata)],
        )
        answer = await self._cluster.ask_coordinator(
            self._group,
            request,
            JoinGroupResponse,
            lambda answer: [answer.error_code],
            timeout_s=REBALANCE_TIMEOUT_MS / 1000 + self._cluster.settings.request_timeout_s,
        )
        if self._joins_again(answer.error_code, answer.member_id):
            return None
        check(answer.error_code, f"group {self._group}")
        self._member_id = answer.member_id
        self._generation = answer.generation_id
        return answer

    async def _sync(self, joined: JoinGroupResponse) -> list[TopicPartition] | None:
        """The member's partitions, or None if it has to join again."""
        assignments = []
        if joined.leader == joined.member_id:
            assignments = await self._assign(joined.members)
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type=_PROTOCOL_TYPE,
            protocol_name=joined.protocol_name,
            assignments=assignments,
        )
        answer = await self._cluster.ask_coordinator(
            self._group,
            request,
            SyncGroupResponse,
            lambda answer: [answer.error_code],
            timeout_s=REBALANCE_TIMEOUT_MS / 1000 + self._cluster.settings.request_timeout_s,
        )
        if self._joins_again(answer.error_code, ""):
            return None
        check(answer.error_code, f"group {self._group}")
        if not answer.assignment:
            return []
        version = min(int.from_bytes(answer.assignment[:_VERSION_BYTES]), 3)
        read = decoder(ConsumerProtocolAssignment, version)
        assigned = read(answer.assignment, _VERSION_BYTES)[0].assigned_partitions
        return sorted(
            TopicPartition(row.topic, index) for row in assigned for index in row.partitions
        )

    async def _assign(
        self, members: Sequence[JoinGroupResponseMember]
    ) -> list[SyncGroupRequestAssignment]:
        """Assign the partitions to the members, as the leader of a generation does."""
        subscriptions = {}
        for member in members:
            version = min(int.from_bytes(member.metadata[:_VERSION_BYTES]), 3)
            read = decoder(ConsumerProtocolSubscription, version)
            subscriptions[member.member_id] = read(member.metadata, _VERSION_BYTES)[0].topics
        names = sorted({name for topics in subscriptions.values() for name in topics})
        found = await self._cluster.metadata(names)
        counts = {topic.name or "": len(topic.partitions) for topic in found.topics}
        return [
            SyncGroupRequestAssignment(
                member_id=member_id, assignment=_encoded_assignment(partitions)
            )
            for member_id, partitions in assign_ranges(subscriptions, counts).items()
        ]

    def _joins_again(self, number: int, member_id: str) -> bool:
        """Whether the member has to join again after this answer; remembers its new id."""
        code = ErrorCode(number)
        if code is ErrorCode.MEMBER_ID_REQUIRED:
            self._member_id = member_id
        elif code is ErrorCode.UNKNOWN_MEMBER_ID:
            self._member_id = ""
        return code in _JOIN_AGAIN

    async def keep_alive(self) -> None:
        """Send heartbeats three times in a session, until cancelled."""
        while True:
            await trio.sleep(self._session_timeout_ms / 3000)
            if self.is_moved:
                continue
            request = HeartbeatRequest(
                group_id=self._group, generation_id=self._generation, member_id=self._member_id
            )
            try:
                answer = await self._cluster.ask_coordinator(
                    self._group, request, HeartbeatResponse, lambda answer: [answer.error_code]
                )
            except (ClientError, KafkaError):
                continue  # other requests of the consumer show whether the broker comes back
            if request.generation_id != self._generation:
                continue
            if self._joins_again(answer.error_code, self._member_id):
                async with self._change:
                    self.is_moved = True
                    self._change.notify_all()

    async def leave(self) -> None:
        """Leave the group, if the member has joined it."""
        if not self._member_id:
            return
        request = LeaveGroupRequest(
            group_id=self._group,
            members=[MemberIdentity(member_id=self._member_id, reason="the consumer was closed")],
        )
        await self._cluster.ask_coordinator(
            self._group, request, LeaveGroupResponse, lambda answer: [answer.error_code]
        )


def _encoded_assignment(partitions: dict[str, list[int]]) -> bytes:
    assigned = [
        AssignedTopic(topic=name, partitions=indexes) for name, indexes in partitions.items()
    ]
    content = encode(ConsumerProtocolAssignment(assigned_partitions=assigned), 0)
    return (0).to_bytes(_VERSION_BYTES) + content
