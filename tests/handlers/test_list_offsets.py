"""ListOffsets of a partition with followers: what consumers and followers are told of its end."""

from pathlib import Path

import pytest

from kwire.errors import ErrorCode
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.handlers.followers import NOW_MS, TOPIC, Leader, at, leading

LATEST, EARLIEST, MAX_TIMESTAMP, LATEST_TIERED = -1, -2, -3, -5
CONSUMER, FOLLOWER = -1, 2


async def ask(
    leader: Leader, timestamp: int, replica_id: int = CONSUMER, version: int = 9
) -> ListOffsetsPartitionResponse:
    """What one asks for a timestamp."""
    partition = ListOffsetsPartition(partition_index=0, timestamp=timestamp)
    request = ListOffsetsRequest(
        replica_id=replica_id, topics=[ListOffsetsTopic(name=TOPIC, partitions=[partition])]
    )
    client = await leader.running.connect()
    response = await client.request(request, version, ListOffsetsResponse)
    await client.aclose()
    return response.topics[0].partitions[0]


async def test_latest_is_the_high_watermark_and_for_followers_the_end(tmp_path: Path) -> None:
    """A follower that is out of range begins at the log end offset, or cuts its log there."""
    async with leading(tmp_path) as leader:
        leader.append(3)
        assert (await ask(leader, LATEST)).offset == 0
        assert (await ask(leader, LATEST, FOLLOWER)).offset == 3
        assert (await ask(leader, NOW_MS)).offset == -1
        assert (await ask(leader, NOW_MS, FOLLOWER)).offset == 0


@pytest.mark.parametrize("version", [4, 9])
async def test_a_new_leader_says_when_it_does_not_know(tmp_path: Path, version: int) -> None:
    """Consumers may have seen offsets beyond a high watermark that is older than the epoch."""
    old, new = ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.OFFSET_NOT_AVAILABLE
    async with leading(tmp_path) as leader:
        leader.append(3)
        await leader.change(leader_epoch=2)
        for timestamp in (LATEST, NOW_MS) + ((MAX_TIMESTAMP,) if version >= 7 else ()):
            found = await ask(leader, timestamp, version=version)
            assert found.error_code == (old if version < 5 else new)
            assert found.offset == -1
        for timestamp in (EARLIEST,) + ((LATEST_TIERED,) if version >= 9 else ()):
            assert (await ask(leader, timestamp, version=version)).error_code == 0
        assert (await ask(leader, LATEST, FOLLOWER, version)).offset == 3
        for node_id in (2, 3):
            follower = await leader.follower(node_id)
            await follower.fetch(at(3, current_leader_epoch=2))
        assert (await ask(leader, LATEST, version=version)).offset == 3
        assert (await ask(leader, NOW_MS, version=version)).offset == 0
