"""A member of a share group on one connection, whose requests a test sends one by one."""

from typing import Any

from kwire.errors import ErrorCode
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from kwire.protocol.messages.share_acknowledge import AcknowledgementBatch as AckedBatch
from kwire.protocol.messages.share_acknowledge import (
    AcknowledgePartition,
    AcknowledgeTopic,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
)
from kwire.protocol.messages.share_fetch import (
    AcknowledgementBatch,
    FetchPartition,
    FetchTopic,
    ShareFetchRequest,
    ShareFetchResponse,
)
from kwire.share.key import SharePartitionKey
from tests.support.in_process import RawClient, RunningServer

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4
Acks = tuple[int, int, list[int]]


class ShareMember:
    """A member with a session; ``epoch`` is that of its next request."""

    def __init__(self, client: RawClient, group: str, member_id: str, topic_id: bytes) -> None:
        self.client = client
        self.group = group
        self.member_id = member_id
        self.topic_id = topic_id
        self.epoch = 0

    async def fetch(
        self,
        acks: dict[int, list[Acks]] | None = None,
        *,
        partitions: tuple[int, ...] = (),
        wait_ms: int = 0,
        max_records: int = 500,
        mode: int = 0,
        **others: Any,
    ) -> ShareFetchResponse:
        """Fetch; the session begins with ``partitions``."""
        named = {index: [] for index in partitions} | (acks or {})
        topic = FetchTopic(
            topic_id=self.topic_id,
            partitions=[
                FetchPartition(
                    partition_index=index,
                    acknowledgement_batches=[
                        AcknowledgementBatch(
                            first_offset=first, last_offset=last, acknowledge_types=types
                        )
                        for first, last, types in batches
                    ],
                )
                for index, batches in named.items()
            ],
        )
        fields = {"max_bytes": 1 << 20, "min_bytes": 1, "batch_size": 500} | others
        request = ShareFetchRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self.epoch,
            max_wait_ms=wait_ms,
            max_records=max_records,
            share_acquire_mode=mode,
            topics=[topic] if named else [],
            **fields,
        )
        answer = await self.client.request(request, 2, ShareFetchResponse)
        if not answer.error_code and self.epoch >= 0:
            self.epoch += 1
        return answer

    async def acknowledge(
        self, acks: dict[int, list[Acks]], *, renews: bool = False
    ) -> ShareAcknowledgeResponse:
        """Acknowledge."""
        partitions = [
            AcknowledgePartition(
                partition_index=index,
                acknowledgement_batches=[
                    AckedBatch(first_offset=first, last_offset=last, acknowledge_types=types)
                    for first, last, types in batches
                ],
            )
            for index, batches in acks.items()
        ]
        request = ShareAcknowledgeRequest(
            group_id=self.group,
            member_id=self.member_id,
            share_session_epoch=self.epoch,
            is_renew_ack=renews,
            topics=[AcknowledgeTopic(topic_id=self.topic_id, partitions=partitions)],
        )
        answer = await self.client.request(request, 2, ShareAcknowledgeResponse)
        if not answer.error_code and self.epoch >= 0:
            self.epoch += 1
        return answer


async def begin_group(server: RunningServer, group: str, topic: str, start: int = 0) -> bytes:
    """Give a group a state of each partition of a topic, as its coordinator does; the topic id."""
    found = server.broker.image.topics_by_name[topic]
    for index in range(len(found.partitions)):
        key = SharePartitionKey(group, found.topic_id, index)
        await server.broker.persister.initialize(key, 0, start)
    return found.topic_id


async def configure(
    server: RunningServer,
    resource: str,
    name: str,
    value: str,
    kind: ConfigResourceType = ConfigResourceType.GROUP,
) -> ErrorCode:
    """Set a config of a group, or of something else; its error."""
    config = AlterableConfig(name=name, value=value)
    changed = AlterConfigsResource(resource_type=kind, resource_name=resource, configs=[config])
    request = IncrementalAlterConfigsRequest(resources=[changed])
    [answer] = (await server.request(request, 1, IncrementalAlterConfigsResponse)).responses
    return ErrorCode(answer.error_code)


def acquired(answer: ShareFetchResponse, index: int = 0) -> list[tuple[int, int, int]]:
    """First offset, last offset and delivery count of what was acquired in a partition."""
    return [
        (one.first_offset, one.last_offset, one.delivery_count)
        for topic in answer.responses
        for row in topic.partitions
        if row.partition_index == index
        for one in row.acquired_records
    ]


def only_row(answer: Any) -> Any:
    """The row of an answer's only partition."""
    [topic] = answer.responses
    [row] = topic.partitions
    return row
