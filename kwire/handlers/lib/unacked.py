"""Produce requests with acks=all whose records have to reach the replicas in sync.

Rules:

- The response is made when the records are appended. Until the replicas have them, the response
  waits in the request's ``Acks``, and no task waits with it.
- A partition that fails afterwards changes only the error code of its answer, as in Kafka: the
  records are in the log, and may be acknowledged to another request or lost.
- A request that ends early, because its client is gone, leaves the queues of its partitions.

Source: DelayedProduce of Kafka.
"""

from struct import Struct
from typing import TYPE_CHECKING

import trio

from kwire.broker.acks import Acks
from kwire.broker.leader_partition import LeaderPartition
from kwire.broker.partition import Partition
from kwire.errors import ErrorCode
from kwire.handlers.lib.waiting import Unfinished, acknowledged, at_once_or_later
from kwire.protocol.frame import RequestHeader

if TYPE_CHECKING:
    from kwire.broker.broker import Broker
    from kwire.handlers.lib.context import ConnectionInfo

PRODUCE_KEY = 0
_ERROR_CODE = Struct(">h")


class Unacked:
    """What a request of the fast path waits for.

    ``places`` are the positions of the error codes in the answer, one for each slot of ``acks``.
    """

    __slots__ = ("_broker", "_client", "_header", "acks", "places")

    def __init__(
        self, timeout_ms: int, header: RequestHeader, broker: "Broker", client: "ConnectionInfo"
    ) -> None:
        self._header = header
        self._broker = broker
        self._client = client
        self.acks = Acks(trio.current_time() + timeout_ms / 1000)
        self.places: list[int] = []

    def add(self, partition: Partition, end_offset: int, place: int) -> None:
        """Wait for the replicas to have a partition's records below an offset."""
        assert isinstance(partition, LeaderPartition)
        partition.wait_for(end_offset, self.acks, len(self.places))
        self.places.append(place)

    def answer(self, ready: bytes) -> "Unfinished | bytes":
        """The response, or what gives it later; ``ready`` is the response if nothing fails."""
        if self.acks.is_set and not self.acks.errors:
            return ready
        later = at_once_or_later(self._answer(ready))
        return later if isinstance(later, Unfinished) else later[0]

    async def _answer(self, ready: bytes) -> list[bytes]:
        await acknowledged(self.acks)
        return [self._with_errors(ready) if self.acks.errors else ready]

    def _with_errors(self, ready: bytes) -> bytes:
        told = bytearray(ready)
        errors = self.acks.errors
        for slot, code in errors.items():
            _ERROR_CODE.pack_into(told, self.places[slot], code)
            self._broker.counters.errors[PRODUCE_KEY, code] += 1
        if ErrorCode.NOT_LEADER_OR_FOLLOWER in errors.values():
            return self._hinted(told)
        return bytes(told)

    def _hinted(self, told: bytearray) -> bytes:
        """The response with the new leaders. It is encoded a second time, which happens seldom."""
        from kwire.budget.work import Turns, Work
        from kwire.handlers.lib.context import RequestContext
        from kwire.handlers.lib.leader_hints import hint_producer
        from kwire.protocol.codec import decode
        from kwire.protocol.frame import decode_response_header, encode_response
        from kwire.protocol.messages.produce import ProduceResponse

        header, client = self._header, self._client
        version = header.api_version
        number, position = decode_response_header(memoryview(told), ProduceResponse, version, 4)
        response = decode(ProduceResponse, version, memoryview(told)[position:])
        work = Work(Turns(), client.is_gone)
        context = RequestContext(self._broker, client, version, header.client_id, work)
        for _ in hint_producer(response, context):
            pass  # the fast path takes no more partitions than fit into a slice
        return bytes(encode_response(response, version, number)[0])
