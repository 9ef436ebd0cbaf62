"""A member of a classic group: S22, whoever coordinates, its group goes on without a rebalance."""

from kwire.client.cluster import check
from kwire.errors import ErrorCode, KafkaError
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
from tests.simulation.workloads import FAILURES, Workload
from tests.simulation.world import World

SESSION_MS = 300_000
PROTOCOL = "range"
REBALANCED = (
    ErrorCode.REBALANCE_IN_PROGRESS,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.ILLEGAL_GENERATION,
)


class Member(Workload):
    """The only member of a group. Once it has its assignment, nobody takes that away."""

    def __init__(self, world: World, name: str) -> None:
        super().__init__(world, name)
        self._member_id = ""
        self._generation = -1
        self._is_stable = False

    async def step(self) -> None:
        """Join, or send a heartbeat."""
        try:
            if self._is_stable:
                await self._beat()
            else:
                await self._join()
                self._is_stable = await self._sync()
            self.done += 1
        except FAILURES:
            pass

    async def _join(self) -> None:
        request = JoinGroupRequest(
            group_id=self.name,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=SESSION_MS,
            member_id=self._member_id,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=b"")],
        )
        answer = await self.cluster.ask_coordinator(
            self.name, request, JoinGroupResponse, lambda answer: [answer.error_code]
        )
        if answer.member_id:
            self._member_id = answer.member_id
        check(answer.error_code, self.name)
        self._generation = answer.generation_id

    async def _sync(self) -> bool:
        own = SyncGroupRequestAssignment(member_id=self._member_id, assignment=b"all")
        request = SyncGroupRequest(
            group_id=self.name,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type="consumer",
            protocol_name=PROTOCOL,
            assignments=[own],
        )
        answer = await self.cluster.ask_coordinator(
            self.name, request, SyncGroupResponse, lambda answer: [answer.error_code]
        )
        check(answer.error_code, self.name)
        assert answer.assignment == b"all", f"{self.name} is assigned {answer.assignment!r}"
        return True

    async def _beat(self) -> None:
        request = HeartbeatRequest(
            group_id=self.name, generation_id=self._generation, member_id=self._member_id
        )
        answer = await self.cluster.ask_coordinator(
            self.name, request, HeartbeatResponse, lambda answer: [answer.error_code]
        )
        code = ErrorCode(answer.error_code)
        assert code not in REBALANCED, f"{self.name} has to rebalance: {code.name}"
        if code:
            raise KafkaError(code)

    async def check(self) -> None:
        """It is still a member of the same generation."""
        assert self._is_stable
        await self._beat()
