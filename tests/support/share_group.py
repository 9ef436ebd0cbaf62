"""A member that joins a share group by heartbeats, as clients do, and gets partitions."""

import trio

from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.share_group_heartbeat import (
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from tests.support.in_process import RawClient, RunningServer
from tests.support.share_member import ShareMember

JOINING_EPOCH, LEAVING_EPOCH = 0, -1
TIMEOUT_S = 30.0


class JoinedMember(ShareMember):
    """A member of the group and of a session that has every partition of the topic."""

    async def leave(self) -> None:
        """End the session and leave the group."""
        self.epoch = -1
        await self.acknowledge({})
        await _beat(self.client, self.group, self.member_id, LEAVING_EPOCH)
        await self.client.aclose()


async def join_share_group(
    server: RunningServer, group: str, topic: str, member_id: str = "worker-1"
) -> JoinedMember:
    """Join, and begin a session; a new group begins at the present end of the topic."""
    client = await server.connect()
    with trio.fail_after(TIMEOUT_S):
        while not await _finds_coordinator(client, group):
            await trio.lowlevel.checkpoint()
        while not await _gets_partitions(client, group, member_id, topic):
            await trio.lowlevel.checkpoint()
    found = server.broker.image.topics_by_name[topic]
    member = JoinedMember(client, group, member_id, found.topic_id)
    await member.fetch(partitions=tuple(range(len(found.partitions))))
    return member


async def _finds_coordinator(client: RawClient, group: str) -> bool:
    request = FindCoordinatorRequest(key=group)
    return not (await client.request(request, 3, FindCoordinatorResponse)).error_code


async def _gets_partitions(client: RawClient, group: str, member_id: str, topic: str) -> bool:
    answer = await _beat(client, group, member_id, JOINING_EPOCH, [topic])
    return answer.assignment is not None and bool(answer.assignment.topic_partitions)


async def _beat(
    client: RawClient, group: str, member_id: str, epoch: int, topics: list[str] | None = None
) -> ShareGroupHeartbeatResponse:
    request = ShareGroupHeartbeatRequest(
        group_id=group, member_id=member_id, member_epoch=epoch, subscribed_topic_names=topics
    )
    answer = await client.request(request, 1, ShareGroupHeartbeatResponse)
    assert not answer.error_code, answer
    return answer
