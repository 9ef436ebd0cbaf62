"""What every member of a classic group asks its coordinator, whatever it does as a member."""

from collections.abc import Mapping

from kwire.client.cluster import check
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.simulation.workloads import Workload
from tests.simulation.world import World

PROTOCOL = "range"


class ClassicMember(Workload):
    """A client that is a member of ``group``; ``member_id`` is empty while it is none."""

    def __init__(self, world: World, name: str, group: str) -> None:
        super().__init__(world, name)
        self.group = group
        self.member_id = ""
        self.generation = -1

    async def join(self, session_ms: int, rebalance_ms: int) -> list[str]:
        """The members, for whom this one has to share out; none if another does. KafkaError."""
        request = JoinGroupRequest(
            group_id=self.group,
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=rebalance_ms,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=b"")],
        )
        answer = await self.cluster.ask_coordinator(
            self.group, request, JoinGroupResponse, lambda answer: [answer.error_code]
        )
        if answer.member_id:
            self.member_id = answer.member_id
        check(answer.error_code, self.name)
        self.generation = answer.generation_id
        is_leader = answer.leader == self.member_id
        return [member.member_id for member in answer.members] if is_leader else []

    async def sync(self, shares: Mapping[str, bytes]) -> bytes:
        """What this member is assigned, after it has said who gets what. KafkaError."""
        request = SyncGroupRequest(
            group_id=self.group,
            generation_id=self.generation,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name=PROTOCOL,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=share)
                for member, share in shares.items()
            ],
        )
        answer = await self.cluster.ask_coordinator(
            self.group, request, SyncGroupResponse, lambda answer: [answer.error_code]
        )
        check(answer.error_code, self.name)
        return answer.assignment

    async def heartbeat(self) -> int:
        """The error code that a heartbeat is answered with."""
        request = HeartbeatRequest(
            group_id=self.group, generation_id=self.generation, member_id=self.member_id
        )
        answer = await self.cluster.ask_coordinator(
            self.group, request, HeartbeatResponse, lambda answer: [answer.error_code]
        )
        return answer.error_code
