"""DeleteRecords of a partition with followers: nobody has the records when it is answered."""

from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.errors import ErrorCode
from kwire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from tests.handlers.followers import TOPIC, Leader, at, leading


async def delete(leader: Leader, timeout_ms: int) -> DeleteRecordsPartitionResult:
    """Delete all that is replicated."""
    partitions = [DeleteRecordsPartition(partition_index=0, offset=-1)]
    request = DeleteRecordsRequest(
        topics=[DeleteRecordsTopic(name=TOPIC, partitions=partitions)], timeout_ms=timeout_ms
    )
    client = await leader.running.connect()
    response = await client.request(request, 2, DeleteRecordsResponse)
    await client.aclose()
    return response.topics[0].partitions[0]


@pytest.mark.parametrize("end", ["followed", "fenced", "late", "moved"])
async def test_the_answer_waits_for_the_followers(tmp_path: Path, end: str) -> None:
    """Until they have deleted, are fenced, the time is up, or another broker leads."""
    async with leading(tmp_path) as leader, trio.open_nursery() as nursery:
        leader.append(3)
        first, second = await leader.follower(2), await leader.follower(3)
        await first.fetch(at(3))
        await second.fetch(at(3))
        told: list[DeleteRecordsPartitionResult] = []

        async def ask() -> None:
            told.append(await delete(leader, 50 if end == "late" else 60_000))

        nursery.start_soon(ask)
        while leader.partition().log.log_start_offset < 3:
            await trio.testing.wait_all_tasks_blocked()
        await first.fetch(at(3, log_start_offset=3))
        if end == "followed":
            assert not told
            await second.fetch(at(3, log_start_offset=3))
        elif end == "fenced":
            await leader.fence(3)
        elif end == "moved":
            await leader.change(leader=2, leader_epoch=2)
        while not told:
            await trio.testing.wait_all_tasks_blocked()
        code = {
            "late": ErrorCode.REQUEST_TIMED_OUT,
            "moved": ErrorCode.NOT_LEADER_OR_FOLLOWER,
        }.get(end, ErrorCode.NONE)
        assert told[0].error_code == code
        assert told[0].low_watermark == (-1 if code else 3)
