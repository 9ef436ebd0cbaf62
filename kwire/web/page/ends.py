"""What other brokers know: where the logs begin and end that they lead, the lag of share groups.

Rules:

- All calls are in the broker's event loop. A broker answers for the partitions that it leads, of
  which it is asked at once, ``MOST_IN_REQUEST`` in a request.
- A broker that gives no answer within ``ANSWER_S`` isn't asked for ``SILENT_MS``, so that it delays
  the page once. What isn't known is left out. So it is with the lag of all share groups, for which
  several brokers may be asked.
- At most ``MOST_ASKED`` partitions are asked for.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeVar

import trio

from kwire.broker.broker import Broker
from kwire.broker.share_lag import ShareLag, share_lags
from kwire.errors import KafkaError
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kwire.protocol.types import Request, Response
from kwire.share.key import SharePartitionKey

R = TypeVar("R", bound=Response)

ANSWER_S = 1.0
SILENT_MS = 10_000
MOST_IN_REQUEST = 1_000
MOST_ASKED = 20_000

_LATEST, _EARLIEST = -1, -2

Key = tuple[str, int]
"""A partition: its topic and its index."""


class Ends(NamedTuple):
    """The first offset of a log, and its high watermark."""

    log_start: int
    end: int


class OtherLeaders:
    """What the other brokers say; it remembers who was silent."""

    def __init__(self) -> None:
        self._silent_until_ms: dict[int, int] = {}
        self._no_share_lags_until_ms = 0

    async def ask(
        self,
        broker: Broker,
        node_id: int,
        request: Request,
        response: type[R],
        version: int | None = None,
    ) -> R | None:
        """A broker's answer; None if it gives none in time, or gave none lately."""
        if self._is_silent(broker, node_id):
            return None
        try:
            with trio.fail_after(ANSWER_S):
                return await broker.peers.ask(node_id, request, response, version=version)
        except (KafkaError, trio.TooSlowError):
            self._note_silent(broker, node_id)
            return None

    async def share_lags(
        self, broker: Broker, group_id: str, places: Mapping[SharePartitionKey, Key]
    ) -> dict[SharePartitionKey, ShareLag]:
        """The lag of a share group; nothing if that takes too long, or took too long lately."""
        if broker.clock.steady_ms() < self._no_share_lags_until_ms:
            return {}
        with trio.move_on_after(ANSWER_S):
            return await share_lags(broker, group_id, places)
        self._no_share_lags_until_ms = broker.clock.steady_ms() + SILENT_MS
        return {}

    def _is_silent(self, broker: Broker, node_id: int) -> bool:
        return broker.clock.steady_ms() < self._silent_until_ms.get(node_id, 0)

    def _note_silent(self, broker: Broker, node_id: int) -> None:
        self._silent_until_ms[node_id] = broker.clock.steady_ms() + SILENT_MS

    async def ends(self, broker: Broker, partitions: Iterable[Key]) -> dict[Key, Ends]:
        """The ends of those partitions whose leaders answer."""
        by_leader: dict[int, list[Key]] = {}
        for count, (topic, index) in enumerate(partitions):
            if count >= MOST_ASKED:
                break
            image = broker.image.topics_by_name.get(topic)
            if image is None or index >= len(image.partitions):
                continue
            leader = broker.leader_of(image, index)
            if leader >= 0 and leader != broker.node_id:
                by_leader.setdefault(leader, []).append((topic, index))
        found: dict[Key, Ends] = {}
        async with trio.open_nursery() as nursery:
            for leader, keys in by_leader.items():
                if not self._is_silent(broker, leader):
                    nursery.start_soon(self._ask, broker, leader, keys, found)
        return found

    async def _ask(
        self, broker: Broker, leader: int, keys: list[Key], found: dict[Key, Ends]
    ) -> None:
        try:
            with trio.fail_after(ANSWER_S):
                for first in range(0, len(keys), MOST_IN_REQUEST):
                    some = keys[first : first + MOST_IN_REQUEST]
                    starts = await _offsets(broker, leader, some, _EARLIEST)
                    ends = await _offsets(broker, leader, some, _LATEST)
                    for key in starts.keys() & ends.keys():
                        found[key] = Ends(starts[key], ends[key])
        except (KafkaError, trio.TooSlowError):
            self._note_silent(broker, leader)


async def _offsets(
    broker: Broker, leader: int, keys: Iterable[Key], timestamp: int
) -> dict[Key, int]:
    topics: dict[str, list[ListOffsetsPartition]] = {}
    for topic, index in keys:
        asked = ListOffsetsPartition(partition_index=index, timestamp=timestamp)
        topics.setdefault(topic, []).append(asked)
    request = ListOffsetsRequest(
        replica_id=-1,
        topics=[ListOffsetsTopic(name=name, partitions=of) for name, of in topics.items()],
    )
    answer = await broker.peers.ask(leader, request, ListOffsetsResponse)
    return {
        (topic.name, one.partition_index): one.offset
        for topic in answer.topics
        for one in topic.partitions
        if not one.error_code
    }
