"""Large requests: decoded in a thread, answered in full, and refused beyond the setting."""

import logging

import pytest

from kwire.connection import large
from kwire.errors import ErrorCode
from kwire.protocol.frame import encode_request
from kwire.protocol.messages.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kwire.testing.in_process import running_server


def _list_offsets(count):
    partitions = [ListOffsetsPartition(partition_index=n, timestamp=-1) for n in range(count)]
    topic = ListOffsetsTopic(name="unknown", partitions=partitions)
    return ListOffsetsRequest(replica_id=-1, topics=[topic])


async def test_a_large_request_is_answered_in_full(tmp_path, monkeypatch):
    """A request of many elements is decoded and its response encoded in a thread, in order."""
    counts = []
    real = large.serve_large

    async def counted(*args):
        counts.append(1)
        return await real(*args)

    monkeypatch.setattr("kwire.connection.large.serve_large", counted)
    async with running_server(tmp_path) as server:
        client = await server.connect()
        count = large.INLINE_ELEMENTS + 1
        answer = await client.request(_list_offsets(count), 7, ListOffsetsResponse)
        (topic,) = answer.topics
        assert [p.partition_index for p in topic.partitions] == list(range(count))
        assert {p.error_code for p in topic.partitions} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        assert len(counts) == 1
        small = await client.request(_list_offsets(3), 7, ListOffsetsResponse)
        assert len(small.topics[0].partitions) == 3
        assert len(counts) == 1


async def test_a_request_of_too_many_elements_ends_the_connection(tmp_path, caplog):
    """The log names the setting and its value; other clients are served."""
    settings = {"kwire.request.max.elements": "5000"}
    with caplog.at_level(logging.INFO):
        async with running_server(tmp_path, settings) as server:
            client = await server.connect()
            await client.send(DescribeGroupsRequest(groups=["g"] * 5001), 5)
            assert await client.is_closed()
            other = await server.connect()
            request = DescribeGroupsRequest(groups=["g"])
            assert (await other.request(request, 5, DescribeGroupsResponse)).groups
    assert "kwire.request.max.elements=5000" in caplog.text


@pytest.mark.parametrize("cut", [1, 100, 3000])
async def test_a_large_request_that_is_cut_short_ends_the_connection(tmp_path, cut):
    """What a thread finds malformed ends the connection like what is decoded at once."""
    async with running_server(tmp_path) as server:
        client = await server.connect()
        frame = bytearray(encode_request(_list_offsets(3000), 7, 1, "raw"))
        del frame[-cut:]
        frame[:4] = (len(frame) - 4).to_bytes(4, "big")
        await client.stream.send_all(bytes(frame))
        assert await client.is_closed()
