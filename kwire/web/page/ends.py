"""Where the logs begin and end that other brokers lead, for the lag of groups.

Rules:

- All calls are in the broker's event loop. A broker answers for the partitions that it leads, of
  which it is asked at once, ``MOST_IN_REQUEST`` in a request.
- A broker that gives no answer within ``ANSWER_S`` isn't asked for ``SILENT_MS``, so that it delays
  the page once. What isn't known is left out.
- At most ``MOST_ASKED`` partitions are asked for.
"""

from collections.abc import Iterable
from typing import NamedTuple

import trio

from kwire.broker.broker import Broker
from kwire.errors import KafkaError
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)

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
                if self._silent_until_ms.get(leader, 0) <= broker.clock.steady_ms():
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
            self._silent_until_ms[leader] = broker.clock.steady_ms() + SILENT_MS


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
