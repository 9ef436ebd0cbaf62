"""A client that knows the APIs of streams groups by short names (KIP-1071)."""

from kwire.errors import ErrorCode
from kwire.protocol.messages import (
    incremental_alter_configs,
    streams_group_describe,
    streams_group_heartbeat,
)

GROUP = "app"
TOPIC = "orders"
CHANGELOG = "app-store-changelog"
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}
GROUP_RESOURCE = 32


class StreamsClient:
    """A client that knows the APIs of streams groups by short names."""

    def __init__(self, server) -> None:
        self.server = server

    async def join(self, member_id="a", *, stateful=False, topic=TOPIC, **fields):
        """A member's first heartbeat."""
        stores = [streams_group_heartbeat.TopicInfo(name=CHANGELOG)] if stateful else []
        part = streams_group_heartbeat.Subtopology(
            subtopology_id="0", source_topics=[topic], state_changelog_topics=stores
        )
        first = {
            "member_epoch": 0,
            "rebalance_timeout_ms": 1000,
            "topology": streams_group_heartbeat.Topology(subtopologies=[part]),
            "process_id": member_id,
        }
        return await self.beat(member_id, **{**first, **fields})

    async def beat(self, member_id="a", **fields):
        """A member's heartbeat."""
        none = {"active_tasks": [], "standby_tasks": [], "warmup_tasks": []}
        given = {"group_id": GROUP, "member_id": member_id, **none, **fields}
        request = streams_group_heartbeat.StreamsGroupHeartbeatRequest(**given)
        response = streams_group_heartbeat.StreamsGroupHeartbeatResponse
        return await self.server.request(request, 1, response)

    async def describe(self, *groups, **fields):
        """The groups' descriptions."""
        request = streams_group_describe.StreamsGroupDescribeRequest(
            group_ids=list(groups), **fields
        )
        response = streams_group_describe.StreamsGroupDescribeResponse
        return (await self.server.request(request, 1, response)).groups

    async def set(self, **configs):
        """Set configs of the group."""
        api = incremental_alter_configs
        changes = [
            api.AlterableConfig(name=name, config_operation=0, value=value)
            for name, value in configs.items()
        ]
        resource = api.AlterConfigsResource(
            resource_type=GROUP_RESOURCE, resource_name=GROUP, configs=changes
        )
        request = api.IncrementalAlterConfigsRequest(resources=[resource])
        answer = await self.server.request(request, 1, api.IncrementalAlterConfigsResponse)
        assert answer.responses[0].error_code == ErrorCode.NONE
