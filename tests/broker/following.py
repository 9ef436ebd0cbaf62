"""A broker that follows a leader, which is a script, for tests."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import trio

from kwire.broker.flusher import Flusher
from kwire.broker.replica.fetchers import Fetchers
from kwire.broker.replica.follower_partition import FollowerPartition
from kwire.broker.replica.replica_fetch_connection import Watcher
from kwire.broker.replica.throttles import Throttles
from kwire.budget.threads import Threads
from kwire.clock import Clock
from kwire.config.broker import BrokerConfig
from kwire.connection.poller import Poller
from kwire.log.disk import Disk
from kwire.log.log_config import LogConfig
from kwire.log.manager import LogManager
from kwire.metadata.image import BrokerImage, MetadataImage
from kwire.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kwire.protocol.types import Request, Response
from kwire.record.records import BatchBuilder
from tests.client.conftest import ScriptedBrokers

LEADER, NODE, EPOCH = 1, 2, 5
TOPIC_ID = bytes(range(16))
SESSION = 99
NOW_MS = 1_700_000_000_000

Script = Callable[[FetchRequest], FetchResponse | None]


def batch_at(base: int, *values: bytes, epoch: int = EPOCH) -> bytes:
    """A batch as a leader has it."""
    builder = BatchBuilder()
    for value in values:
        builder.add(NOW_MS, b"k", value)
    data = bytearray(builder.build())
    data[:8] = base.to_bytes(8, "big")
    data[12:16] = epoch.to_bytes(4, "big")
    return bytes(data)


def answer(index: int = 0, records: bytes | None = None, **fields: Any) -> FetchResponse:
    """An answer about one partition."""
    fields.setdefault("high_watermark", 0)
    data = PartitionData(
        partition_index=index,
        error_code=fields.pop("error_code", 0),
        records=records,
        log_start_offset=fields.pop("log_start_offset", 0),
        **fields,
    )
    topic = FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[data])
    return FetchResponse(session_id=SESSION, responses=[topic])


class Following:
    """The broker, as its fetchers see it; ``script`` are the leader's answers to Fetch, in order.

    When they are used up, the leader keeps its follower waiting. ``ends`` are the log start offset
    and the log end offset that it tells. With ``has_poller`` the follower's fast path fetches.
    """

    def __init__(
        self,
        nursery: trio.Nursery,
        directory: Path,
        *,
        has_poller: bool = False,
        disk: Disk | None = None,
        **config: Any,
    ) -> None:
        self.node_id = NODE
        self.config = BrokerConfig.load({"replica.fetch.backoff.ms": "20"})
        brokers = {
            LEADER: BrokerImage(LEADER, None, (("PLAINTEXT", "h", LEADER),), epoch=40),
            NODE: BrokerImage(NODE, None, (("PLAINTEXT", "h", NODE),), epoch=41),
        }
        self.image = MetadataImage(brokers=brokers)
        self.log_config = LogConfig(**config)
        disk = disk or Disk()
        self.log_manager = LogManager.open([directory], node_id=NODE, now_ms=NOW_MS, disk=disk)
        self.threads = Threads()
        self.clock = Clock()
        self.flusher = Flusher(self.clock.steady_ms, self.threads.syncing)
        self.random = Random(1)
        self.throttles: Throttles | None = None
        self.watcher: Watcher | None = None
        if has_poller:
            self.watcher = poller = Poller(nursery)
            nursery.start_soon(poller.run)
        self.background = nursery
        self.leader = ScriptedBrokers(nursery)
        self.leader.has_sockets = has_poller
        self.leader.answer = self._answer
        self.leader.gated = FetchRequest
        self.leader.gate = trio.Event()
        self.script: list[Script] = []
        self.fetched: list[FetchRequest] = []
        self.ends = (0, 0)
        self.fetchers = Fetchers(self, None, self.leader.open)
        nursery.start_soon(self.flusher.run)

    def integer(self, name: str) -> int:
        """A setting."""
        return self.config.integer(name)

    def follower(self, index: int = 0) -> FollowerPartition:
        """A partition that is followed, with its log as it is."""
        log = self.log_manager.get_or_create("t", index, TOPIC_ID, self.log_config, NOW_MS)
        known = self.log_manager.high_watermark_before(log)
        return FollowerPartition("t", index, TOPIC_ID, log, LEADER, EPOCH, known)

    def follow(self, *partitions: FollowerPartition) -> None:
        """Have them fetched."""
        self.fetchers.place(partitions)

    def _answer(self, port: int, request: Request, version: int) -> Response | None:
        if isinstance(request, FetchRequest):
            self.fetched.append(request)
            script = self.script.pop(0) if self.script else lambda _: None
            if not self.script:
                self.leader.gate = trio.Event()
            return script(request)
        if isinstance(request, ListOffsetsRequest):
            assert request.replica_id == NODE
            topics = []
            for topic in request.topics:
                found = [
                    ListOffsetsPartitionResponse(
                        partition_index=wanted.partition_index,
                        error_code=0,
                        offset=self.ends[0 if wanted.timestamp == -2 else 1],
                    )
                    for wanted in topic.partitions
                ]
                topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=found))
            return ListOffsetsResponse(topics=topics)
        return self.leader.default(port, request, version)

    def says(self, *answers: FetchResponse | None) -> None:
        """What the leader answers from now on; None closes the connection."""
        self.script += [lambda _, one=one: one for one in answers]  # type: ignore[misc]
        if self.leader.gate is not None:
            gate, self.leader.gate = self.leader.gate, None
            gate.set()

    @property
    def waiting(self) -> FetchRequest | None:
        """The request that the leader hasn't answered yet."""
        arrived = [one for _, one, _ in self.leader.requests if isinstance(one, FetchRequest)]
        return arrived[-1] if len(arrived) > len(self.fetched) else None
