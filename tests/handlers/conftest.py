"""A broker with a topic of two partitions, and a client of a group over a raw connection."""

from collections.abc import Awaitable, Callable

import pytest

from kwire.errors import ErrorCode
from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.join_group import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
)
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.protocol.messages.sync_group import (
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)
from tests.support.in_process import RawClient, RunningServer, running_server

GROUP = "billing"


class GroupClient:
    """A member of a group on a connection of its own."""

    def __init__(self, raw: RawClient, group_id: str) -> None:
        self.raw = raw
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
        response = await self.raw.request(request, version, JoinGroupResponse)
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
        return await self.raw.request(request, version, SyncGroupResponse)

    async def become_stable(self, assignment: bytes = b"everything") -> None:
        """Be the only member, with an assignment."""
        await self.join()
        joined = await self.join()
        assert joined.error_code == ErrorCode.NONE
        synced = await self.sync(**{self.member_id: assignment})
        assert synced.assignment == assignment


@pytest.fixture
async def server(tmp_path):
    """A running broker with the topic ``orders``."""
    settings = {
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.num.partitions": "2",
        "num.partitions": "2",
    }
    async with running_server(tmp_path, settings) as running:
        client = await running.connect()
        wanted = MetadataRequest(
            topics=[MetadataRequestTopic(name="orders")], allow_auto_topic_creation=True
        )
        await client.request(wanted, 9, MetadataResponse)
        await client.request(FindCoordinatorRequest(key=GROUP), 3, FindCoordinatorResponse)
        await client.aclose()
        yield running


@pytest.fixture
def new_member(server: RunningServer) -> Callable[..., Awaitable[GroupClient]]:
    """Makes members, each on a connection of its own."""

    async def connect(group_id: str = GROUP) -> GroupClient:
        return GroupClient(await server.connect(), group_id)

    return connect


@pytest.fixture
async def member(new_member) -> GroupClient:
    """One member."""
    return await new_member()
