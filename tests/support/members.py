"""A member of a group that uses the classic protocol, whose requests a test sends one by one."""

from kwire.errors import ErrorCode
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
from tests.support.asking import Asks


class Member:
    """A member of a group on a connection of its own."""

    def __init__(self, client: Asks, group_id: str) -> None:
        self.client = client
        self.group_id = group_id
        self.member_id = ""
        self.generation = -1

    async def join(self, version: int = 9, **fields: object) -> JoinGroupResponse:
        """Join, once; the member id is remembered."""
        values = {
            "group_id": self.group_id,
            "member_id": self.member_id,
            "session_timeout_ms": 10_000,
        }
        values["rebalance_timeout_ms"] = 60_000 if version else -1
        values["protocol_type"] = "consumer"
        values["protocols"] = [JoinGroupRequestProtocol(name="range", metadata=b"topics")]
        request = JoinGroupRequest(**(values | fields))
        response = await self.client.request(request, version, JoinGroupResponse)
        self.member_id = response.member_id or self.member_id
        self.generation = response.generation_id
        return response

    async def sync(self, version: int = 5, **assignments: bytes) -> SyncGroupResponse:
        """Sync, with assignments by member id where this member leads."""
        names = {"protocol_type": "consumer", "protocol_name": "range"} if version >= 5 else {}
        request = SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=assignment)
                for member_id, assignment in assignments.items()
            ],
            **names,
        )
        return await self.client.request(request, version, SyncGroupResponse)

    async def become_stable(self, assignment: bytes = b"everything") -> None:
        """Be the only member, with an assignment."""
        await self.join()
        joined = await self.join()
        assert joined.error_code == ErrorCode.NONE
        synced = await self.sync(**{self.member_id: assignment})
        assert synced.assignment == assignment
