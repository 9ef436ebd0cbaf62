"""What a test asks of a broker in one line, by whatever sends typed requests.

Every error that a broker answers is a KafkaError, so that a test's preparations can't fail
unseen. ``error_of`` is for a test that expects one. Topics go by their names; a test of another
version makes its request with ``tests.support.requests``.
"""

from collections.abc import Awaitable
from typing import Any, TypeVar

import trio

from kwire.errors import ErrorCode, KafkaError
from kwire.protocol.messages.create_topics import CreateTopicsResponse
from kwire.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from kwire.protocol.messages.fetch import FetchResponse, PartitionData
from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.list_offsets import ListOffsetsResponse
from kwire.protocol.messages.offset_commit import OffsetCommitResponse
from kwire.protocol.messages.offset_fetch import OffsetFetchResponse
from kwire.protocol.messages.produce import PartitionProduceResponse, ProduceResponse
from kwire.protocol.messages.sasl_authenticate import (
    SaslAuthenticateRequest,
    SaslAuthenticateResponse,
)
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kwire.protocol.types import Request, Response
from kwire.record.records import Record
from tests.support.records import Item, batch, batches_in, records_in
from tests.support.requests import (
    EARLIEST,
    LATEST,
    commit_request,
    create_topics_request,
    fetch_request,
    list_offsets_request,
    offset_fetch_request,
    produce_request,
)

GROUP_KEY = 0
TRANSACTION_KEY = 1

READ_COMMITTED = 1

COORDINATOR_COMES = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
}
"""The topic of the coordinator's state isn't there yet, or is being read."""

PATIENCE_S = 10

_R = TypeVar("_R", bound=Response)


def check(code: int, message: str | None = None) -> None:
    """Raise KafkaError for an error code."""
    if code:
        raise KafkaError(ErrorCode(code), message or "")


async def error_of(asked: Awaitable[object]) -> ErrorCode:
    """The error that a broker answered, NONE if it did what was asked."""
    try:
        await asked
    except KafkaError as error:
        return error.code
    return ErrorCode.NONE


class Asks:
    """What sends typed requests, and the requests that tests send most."""

    async def request(self, request: Request, version: int, answer: type[_R], /) -> _R:
        """Send a request and return its response, which must be of class ``answer``."""
        raise NotImplementedError

    async def login(self, user: str, password: str) -> None:
        """Log in with PLAIN."""
        handshake = SaslHandshakeRequest(mechanism="PLAIN")
        check((await self.request(handshake, 1, SaslHandshakeResponse)).error_code)
        request = SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode())
        answer = await self.request(request, 2, SaslAuthenticateResponse)
        check(answer.error_code, answer.error_message)

    async def topic(self, name: str, partitions: int = 1, **configs: Any) -> bytes:
        """Create a topic; its id. ``cleanup_policy="compact"`` is a setting."""
        request = create_topics_request(name, partitions=partitions, **configs)
        [created] = (await self.request(request, 7, CreateTopicsResponse)).topics
        check(created.error_code, created.error_message)
        return created.topic_id

    async def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        request = DeleteTopicsRequest(topic_names=[name], timeout_ms=10_000)
        [deleted] = (await self.request(request, 5, DeleteTopicsResponse)).responses
        check(deleted.error_code, deleted.error_message)

    async def produce(
        self, topic: str, *items: Item, partition: int = 0, acks: int = -1, **fields: Any
    ) -> PartitionProduceResponse:
        """Write records in one batch (``tests.support.records.batch``)."""
        made = batch(*items, **fields)
        return await self.produce_batch(topic, made, partition=partition, acks=acks)

    async def produce_batch(
        self, topic: str, records: bytes, *, partition: int = 0, acks: int = -1
    ) -> PartitionProduceResponse:
        """Write a batch, or whatever it is."""
        request = produce_request(topic, {partition: records}, acks=acks)
        answer = await self.request(request, 12, ProduceResponse)
        [written] = answer.responses[0].partition_responses
        check(written.error_code, written.error_message)
        return written

    async def fetch(
        self, topic: str, offset: int = 0, *, partition: int = 0, **fields: Any
    ) -> PartitionData:
        """What a partition has from an offset on; by default without waiting for more."""
        request = fetch_request(topic, {partition: offset}, **fields)
        answer = await self.request(request, 12, FetchResponse)
        check(answer.error_code)
        [found] = answer.responses[0].partitions
        check(found.error_code)
        return found

    async def records(
        self, topic: str, *, partition: int = 0, offset: int = 0, **fields: Any
    ) -> list[Record]:
        """All records of a partition from an offset on, those of aborted transactions included."""
        end = await self.end_offset(topic, partition)
        found: list[Record] = []
        while offset < end:
            data = await self.fetch(topic, offset, partition=partition, **fields)
            found += [one for one in records_in(data.records) if one.offset >= offset]
            offset = batches_in(data.records)[-1].last_offset + 1
        return found

    async def end_offset(self, topic: str, partition: int = 0) -> int:
        """The offset up to which consumers can read."""
        return await self.offset_at(topic, LATEST, partition)

    async def start_offset(self, topic: str, partition: int = 0) -> int:
        """The offset from which on consumers can read."""
        return await self.offset_at(topic, EARLIEST, partition)

    async def offset_at(self, topic: str, timestamp: int, partition: int = 0) -> int:
        """What ListOffsets says of a time, or of one of its special numbers."""
        request = list_offsets_request(topic, partition, timestamp=timestamp)
        [found] = (await self.request(request, 10, ListOffsetsResponse)).topics[0].partitions
        check(found.error_code)
        return found.offset

    async def find_coordinator(self, key: str, key_type: int = GROUP_KEY) -> int:
        """The node id of the coordinator, whose topic is created at the first question."""
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
        [found] = (await self.request(request, 4, FindCoordinatorResponse)).coordinators
        check(found.error_code, found.error_message)
        return found.node_id

    async def commit(
        self, group: str, topic: str, offset: int, *, partition: int = 0, **fields: Any
    ) -> None:
        """Commit an offset, as a client without membership if there are no other fields."""
        request = commit_request(group, topic, {partition: offset}, **fields)
        with trio.fail_after(PATIENCE_S):
            while True:
                answer = await self.request(request, 9, OffsetCommitResponse)
                [done] = answer.topics[0].partitions
                if not await self._has_to_wait(done.error_code, group):
                    return check(done.error_code)

    async def committed(
        self, group: str, topic: str, *, partition: int = 0, require_stable: bool = False
    ) -> int:
        """The offset that a group has committed, -1 if there is none."""
        request = offset_fetch_request(group, topic, partition, require_stable=require_stable)
        with trio.fail_after(PATIENCE_S):
            while True:
                [found] = (await self.request(request, 9, OffsetFetchResponse)).groups
                if not await self._has_to_wait(found.error_code, group):
                    break
        check(found.error_code)
        [row] = found.topics[0].partitions
        check(row.error_code)
        return row.committed_offset

    async def _has_to_wait(self, code: int, group: str) -> bool:
        """Whether the group's coordinator is about to come; it is asked for."""
        if code not in COORDINATOR_COMES:
            return False
        await error_of(self.find_coordinator(group))
        await trio.lowlevel.checkpoint()
        return True
