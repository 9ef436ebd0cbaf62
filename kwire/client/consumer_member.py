"""A member of a consumer group of KIP-848: the coordinator assigns by its answers to heartbeats.

Rules:

- A heartbeat with epoch 0 joins, with epoch -1 leaves. A field that hasn't changed is null.
- An answer with an assignment is the target. Partitions that aren't in it are given up first: the
  member stops consuming them, commits, and names its remaining partitions in its next heartbeat.
  Only then does the coordinator give the others to other members.
- FENCED_MEMBER_EPOCH and UNKNOWN_MEMBER_ID mean that the group has gone on without the member: it
  joins again and owns nothing.
"""

import uuid
from collections.abc import Sequence

import trio

from kwire.client.cluster import Cluster
from kwire.client.errors import ClientError
from kwire.client.leaders import TopicPartition
from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

REBALANCE_TIMEOUT_MS = 60_000
_JOIN = 0
_LEAVE = -1
_FIRST_PAUSE_S = 0.1
SOON_S = (0.05, 0.1, 0.2, 0.4, 0.8)
"""When a member without partitions asks again: the assignment may still be computed."""

_THROWN_OUT = {ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID}


class ConsumerMember:
    """One member; see ``kwire.client.members`` for its use."""

    def __init__(self, cluster: Cluster, group: str, topics: Sequence[str]) -> None:
        self.is_moved = True
        self._cluster = cluster
        self._group = group
        self._topics = list(topics)
        self._member_id = str(uuid.uuid4())
        self._epoch = _JOIN
        self._pause_s = _FIRST_PAUSE_S
        self._owned: set[tuple[bytes, int]] = set()
        self._target: set[tuple[bytes, int]] | None = None
        self._names: dict[bytes, str] = {}
        self._change = trio.Condition()
        self._turn = trio.Lock()

    def identity(self) -> tuple[str, int]:
        """Member id and member epoch."""
        return self._member_id, self._epoch

    async def wait_moved(self) -> None:
        """Wait until ``is_moved``."""
        async with self._change:
            while not self.is_moved:
                await self._change.wait()

    async def settle(self) -> list[TopicPartition]:
        """Take the target as the assignment, and tell the coordinator; KafkaError.

        The first call joins and waits until the coordinator has sent an assignment.
        """
        soon = iter(SOON_S)
        while self._target is None or self._owned != self._target or not self._owned:
            is_new = self._target is None
            if self._target is not None:
                self._owned = set(self._target)
            await self._heartbeat()
            if not self._target and not is_new:
                pause_s = next(soon, None)
                if pause_s is None:
                    break
                await trio.sleep(pause_s)
        await self._learn_names()
        async with self._change:
            self.is_moved = self._owned != self._target
        return sorted(
            TopicPartition(self._names[topic_id], index) for topic_id, index in self._owned
        )

    async def keep_alive(self) -> None:
        """Send heartbeats as often as the coordinator asks for, until cancelled."""
        while True:
            await trio.sleep(self._pause_s)
            if self.is_moved and self._target is None:
                continue  # ``settle`` joins
            try:
                await self._heartbeat()
            except ClientError:
                continue  # the consumer itself notices a broker that stays away
            except KafkaError as error:
                if not error.retriable:
                    raise

    async def leave(self) -> None:
        """Leave the group, if the member has joined it."""
        if self._epoch != _JOIN:
            self._epoch = _LEAVE
            await self._ask(
                ConsumerGroupHeartbeatRequest(
                    group_id=self._group, member_id=self._member_id, member_epoch=_LEAVE
                )
            )

    async def _heartbeat(self) -> None:
        """Send a heartbeat, and process its answer."""
        async with self._turn:
            if self._epoch == _LEAVE:
                return
            answer = await self._ask(self._request())
            code = ErrorCode(answer.error_code)
            if code in _THROWN_OUT:
                self._epoch = _JOIN
                self._owned = set()
                self._target = None
                await self._wake_all()
                return
            if answer.error_code:
                raise KafkaError(code, answer.error_message or f"group {self._group}")
            self._member_id = answer.member_id or self._member_id
            self._epoch = answer.member_epoch
            self._pause_s = answer.heartbeat_interval_ms / 1000
            if answer.assignment is not None:
                self._target = _pairs(answer.assignment)
                if self._target != self._owned:
                    await self._wake_all()

    async def _wake_all(self) -> None:
        async with self._change:
            self.is_moved = True
            self._change.notify_all()

    def _request(self) -> ConsumerGroupHeartbeatRequest:
        by_topic: dict[bytes, list[int]] = {}
        for topic_id, index in sorted(self._owned):
            by_topic.setdefault(topic_id, []).append(index)
        return ConsumerGroupHeartbeatRequest(
            group_id=self._group,
            member_id=self._member_id,
            member_epoch=self._epoch,
            instance_id=None,
            rack_id=None,
            rebalance_timeout_ms=REBALANCE_TIMEOUT_MS,
            subscribed_topic_names=self._topics,
            subscribed_topic_regex=None,
            server_assignor=None,
            topic_partitions=[
                TopicPartitions(topic_id=topic_id, partitions=indexes)
                for topic_id, indexes in by_topic.items()
            ],
        )

    async def _ask(self, request: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatResponse:
        return await self._cluster.ask_coordinator(
            self._group,
            request,
            ConsumerGroupHeartbeatResponse,
            lambda answer: [answer.error_code],
        )

    async def _learn_names(self) -> None:
        """The names of the topics whose ids the assignment has."""
        if any(topic_id not in self._names for topic_id, _ in self._owned):
            found = await self._cluster.topics(self._topics)
            self._names.update((topic.topic_id, name) for name, topic in found.items())


def _pairs(assignment: Assignment) -> set[tuple[bytes, int]]:
    return {
        (bytes(topic.topic_id), index)
        for topic in assignment.topic_partitions
        for index in topic.partitions
    }
