"""A group of the consumer protocol, with single requests of its members."""

import uuid
from typing import Any

from compat_tests.raw_client import RawClient
from kwire.errors import ErrorCode
from kwire.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from kwire.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    TopicPartitions,
)
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.init_producer_id import InitProducerIdRequest
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kwire.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kwire.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kwire.testing.waiting import wait_until

PARTITIONS = 4
REBALANCE_MS = 30_000

Owned = list[int]
"""Partitions of the one topic."""


class Group:
    """A group with one topic, and requests of its members."""

    def __init__(self, client: RawClient, group: str, topic: str) -> None:
        self.client = client
        self.group = group
        self.topic = topic
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        [described] = client.ask(asked, 12).topics
        self.topic_id: bytes = described.topic_id
        coordinator = FindCoordinatorRequest(coordinator_keys=[group])
        wait_until(lambda: not client.ask(coordinator, 6).coordinators[0].error_code)

    def beat(
        self, member_id: str, epoch: int, owns: Owned | None = None, **given: Any
    ) -> tuple[str, int, Owned | None]:
        """A heartbeat: the error, the epoch, and what the member is told to have."""
        version = given.pop("version", 1)
        request = ConsumerGroupHeartbeatRequest(
            group_id=self.group,
            member_id=member_id,
            member_epoch=epoch,
            topic_partitions=None if owns is None else self._partitions(owns),
            **given,
        )
        response = wait_until(lambda: self._loaded(request, version))
        assignment = response.assignment
        return (
            ErrorCode(response.error_code).name,
            response.member_epoch,
            None
            if assignment is None
            else sorted(p for topic in assignment.topic_partitions for p in topic.partitions),
        )

    def _loaded(self, request: ConsumerGroupHeartbeatRequest, version: int) -> Any:
        """The answer, once the coordinator is there."""
        response = self.client.ask(request, version)
        loading = (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR)
        return None if response.error_code in loading else response

    def _partitions(self, owns: Owned) -> list[TopicPartitions]:
        return [TopicPartitions(topic_id=self.topic_id, partitions=owns)] if owns else []

    def join(self, member_id: str, **given: Any) -> tuple[str, int, Owned | None]:
        """A member joins."""
        given.setdefault("subscribed_topic_names", [self.topic])
        return self.beat(member_id, 0, [], rebalance_timeout_ms=REBALANCE_MS, **given)

    def settle(self, members: dict[str, tuple[int, Owned]]) -> None:
        """Let members go on until all are at epoch 3 and everything is shared out."""

        def go_on() -> bool:
            for name, (epoch, owned) in members.items():
                error, new_epoch, assigned = self.beat(name, epoch, owned)
                assert error == "NONE"
                members[name] = (new_epoch, owned if assigned is None else assigned)
            epochs = {epoch for epoch, _ in members.values()}
            return epochs == {3} and sum(len(p) for _, p in members.values()) == PARTITIONS

        wait_until(go_on, what="the group to settle")

    def commit(self, member_id: str, epoch: int, *partitions: int, version: int = 10) -> str:
        """A commit of one offset, or of the same for several partitions; their error."""
        request = OffsetCommitRequest(
            group_id=self.group,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[
                OffsetCommitRequestTopic(
                    name=self.topic if version < 10 else "",
                    topic_id=self.topic_id if version >= 10 else bytes(16),
                    partitions=[
                        OffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=0, committed_metadata=""
                        )
                        for partition in partitions
                    ],
                )
            ],
        )
        [topic] = self.client.ask(request, version).topics
        [error] = {ErrorCode(answer.error_code).name for answer in topic.partitions}
        return error

    def commit_in_transaction(
        self, member_id: str, epoch: int, *partitions: int, version: int = 5
    ) -> str:
        """The same as part of a transaction, which is aborted by the next one."""
        name = f"{self.group}-transactions"
        coordinator = FindCoordinatorRequest(key_type=1, coordinator_keys=[name])
        wait_until(lambda: not self.client.ask(coordinator, 6).coordinators[0].error_code)
        begin = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)

        def begun() -> Any:
            answer = self.client.ask(begin, 5)
            return None if answer.error_code else answer

        producer = wait_until(begun, what="a producer")
        request = TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=self.group,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            generation_id_or_member_epoch=epoch,
            member_id=member_id,
            topics=[
                TxnOffsetCommitRequestTopic(
                    name=self.topic,
                    topic_id=self.topic_id,
                    partitions=[
                        TxnOffsetCommitRequestPartition(
                            partition_index=partition, committed_offset=0, committed_metadata=""
                        )
                        for partition in partitions
                    ],
                )
            ],
        )
        [topic] = self.client.ask(request, version).topics
        [error] = {ErrorCode(answer.error_code).name for answer in topic.partitions}
        return error

    def fetch(self, member_id: str | None, epoch: int) -> str:
        """A fetch of all offsets; its error."""
        wanted = OffsetFetchRequestGroup(
            group_id=self.group, member_id=member_id, member_epoch=epoch, topics=None
        )
        [group] = self.client.ask(OffsetFetchRequest(groups=[wanted]), 10).groups
        return ErrorCode(group.error_code).name

    def describe(self) -> Any:
        """The group as it is described."""
        request = ConsumerGroupDescribeRequest(group_ids=[self.group])
        return self.client.ask(request, 1).groups[0]


def wait_topic_is_known(probe: Group) -> None:
    """A coordinator may hear of a new topic later than the rest of its broker."""
    member = new_id()
    epoch = 0

    def is_assigned() -> bool:
        nonlocal epoch
        answer = probe.beat(member, epoch, []) if epoch else probe.join(member)
        epoch = answer[1]
        return bool(answer[2])

    wait_until(is_assigned, what="the coordinator to know the topic")
    probe.beat(member, -1)


def new_id() -> str:
    """A member's id."""
    return str(uuid.uuid4())
