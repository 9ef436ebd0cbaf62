"""A data directory whose disk fails goes offline alone; the rest serves on."""

import errno
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from kwire.config.broker import BrokerConfig
from kwire.errors import ErrorCode
from kwire.housekeeping import StorageLost
from kwire.metadata.controller import delete_topic
from kwire.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopic,
)
from kwire.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kwire.protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    TopicRequest,
)
from kwire.protocol.messages.fetch import (
    FetchResponse,
)
from kwire.protocol.messages.find_coordinator import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from kwire.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataResponse,
    MetadataResponsePartition,
)
from kwire.protocol.messages.offset_for_leader_epoch import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kwire.server import Server, StartError
from kwire.testing.faulty_disk import FaultyDisk
from tests.support.asking import error_of
from tests.support.in_process import RawClient, RunningServer, running_server
from tests.support.requests import fetch_request

OFFLINE = ErrorCode.KAFKA_STORAGE_ERROR
PARTITIONS = 4


class Broker:
    """A broker with two data directories and a topic of four partitions, two in each."""

    def __init__(self, running: RunningServer, raw: RawClient, disk: FaultyDisk) -> None:
        self.running = running
        self.raw = raw
        self.disk = disk

    async def produce(self, index: int) -> int:
        """The error code of an append of one record."""
        now_ms = self.running.broker.now_ms()
        return await error_of(self.raw.produce("t", b"v", partition=index, timestamp=now_ms))

    async def produce_everywhere(self) -> list[int]:
        """The error code of an append to each partition."""
        return [await self.produce(index) for index in range(PARTITIONS)]

    async def metadata(self) -> list[MetadataResponsePartition]:
        """What Metadata says of the partitions."""
        response = await self.raw.request(MetadataRequest(topics=None), 9, MetadataResponse)
        return response.topics[0].partitions

    def directory_of(self, index: int) -> Path:
        """The data directory of a partition."""
        return self.running.broker.partition("t", index).log.directory.parent


@asynccontextmanager
async def two_directories(
    path: Path, disk: FaultyDisk | None = None, *, create: bool = True
) -> AsyncIterator[Broker]:
    """A broker on the directories a and b."""
    disk = disk or FaultyDisk()
    settings = {"log.dirs": f"{path / 'a'},{path / 'b'}"}
    async with running_server(path, settings, disk=disk) as running:
        if create:
            await running.topic("t", PARTITIONS)
        raw = await running.connect()
        yield Broker(running, raw, disk)
        await raw.aclose()


async def test_new_partitions_go_to_the_directory_with_the_fewest(tmp_path: Path) -> None:
    async with two_directories(tmp_path) as two:
        found = [two.directory_of(index) for index in range(PARTITIONS)]
        assert sorted(found) == [tmp_path / "a"] * 2 + [tmp_path / "b"] * 2


async def test_one_failed_directory_is_offline_and_the_other_serves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An error of the disk on an append: KAFKA_STORAGE_ERROR for every partition there, in every
    request, said once; no leader in the metadata; the other partitions know nothing of it."""
    async with two_directories(tmp_path) as two:
        assert await two.produce_everywhere() == [0] * PARTITIONS
        lost = [i for i in range(PARTITIONS) if two.directory_of(i) == tmp_path / "b"]
        expected = [OFFLINE if index in lost else 0 for index in range(PARTITIONS)]
        two.disk.broken[tmp_path / "b"] = errno.EIO
        caplog.clear()
        assert await two.produce_everywhere() == expected
        assert await two.produce_everywhere() == expected
        said = [r.getMessage() for r in caplog.records if r.levelno >= logging.ERROR]
        assert len(said) == 1
        assert str(tmp_path / "b") in said[0]
        assert "offline" in said[0]
        for index, partition in enumerate(await two.metadata()):
            gone = index in lost
            assert partition.error_code == (ErrorCode.LEADER_NOT_AVAILABLE if gone else 0)
            assert partition.leader_id == (-1 if gone else 1)
            assert partition.offline_replicas == ([1] if gone else [])
        await _check_other_requests(two, expected)
        await _check_offset_requests(two, expected)
        directories = await two.raw.request(
            DescribeLogDirsRequest(topics=None), 4, DescribeLogDirsResponse
        )
        a, b = directories.results
        assert (a.error_code, b.error_code) == (0, OFFLINE)
        assert len(a.topics[0].partitions) == 2
        assert not b.topics


async def _check_other_requests(two: Broker, expected: list[int]) -> None:
    """Fetch and DescribeTopicPartitions."""
    every = range(PARTITIONS)
    fetched = await two.raw.request(
        fetch_request("t", dict.fromkeys(every, 0)),
        11,
        FetchResponse,
    )
    assert [p.error_code for p in fetched.responses[0].partitions] == expected
    described = await two.raw.request(
        DescribeTopicPartitionsRequest(topics=[TopicRequest(name="t")]),
        0,
        DescribeTopicPartitionsResponse,
    )
    leaders = [p.leader_id for p in described.topics[0].partitions]
    assert leaders == [-1 if code else 1 for code in expected]


async def _check_offset_requests(two: Broker, expected: list[int]) -> None:
    """ListOffsets, DeleteRecords, OffsetForLeaderEpoch."""
    every = range(PARTITIONS)
    offsets = await two.raw.request(
        ListOffsetsRequest(
            replica_id=-1,
            topics=[
                ListOffsetsTopic(
                    name="t",
                    partitions=[
                        ListOffsetsPartition(partition_index=i, timestamp=-1) for i in every
                    ],
                )
            ],
        ),
        5,
        ListOffsetsResponse,
    )
    assert [p.error_code for p in offsets.topics[0].partitions] == expected
    deleted = await two.raw.request(
        DeleteRecordsRequest(
            topics=[
                DeleteRecordsTopic(
                    name="t",
                    partitions=[DeleteRecordsPartition(partition_index=i, offset=1) for i in every],
                )
            ],
            timeout_ms=1000,
        ),
        2,
        DeleteRecordsResponse,
    )
    assert [p.error_code for p in deleted.topics[0].partitions] == expected
    epochs = await two.raw.request(
        OffsetForLeaderEpochRequest(
            topics=[
                OffsetForLeaderTopic(
                    topic="t",
                    partitions=[
                        OffsetForLeaderPartition(partition=i, leader_epoch=0) for i in every
                    ],
                )
            ]
        ),
        4,
        OffsetForLeaderEpochResponse,
    )
    assert [p.error_code for p in epochs.topics[0].partitions] == expected


@pytest.mark.parametrize("timestamp", [0, -3])
async def test_an_error_on_a_read_takes_the_directory_offline(
    tmp_path: Path, timestamp: int
) -> None:
    """ListOffsets by time, the first who notices, gets KAFKA_STORAGE_ERROR."""
    async with two_directories(tmp_path) as two:
        await two.produce_everywhere()
        for partition in two.running.broker.partitions():
            partition.log.active.close()
        two.disk.broken[tmp_path / "b"] = errno.EIO
        wanted = [
            ListOffsetsPartition(partition_index=index, timestamp=timestamp)
            for index in range(PARTITIONS)
        ]
        request = ListOffsetsRequest(
            replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=wanted)]
        )
        offsets = await two.raw.request(request, 7, ListOffsetsResponse)
        codes = [p.error_code for p in offsets.topics[0].partitions]
        assert sorted(codes) == [0, 0, OFFLINE, OFFLINE]
        assert list(two.running.broker.log_manager.failures) == [tmp_path / "b"]


async def test_a_directory_that_fails_at_the_start(tmp_path: Path) -> None:
    """Its partitions are offline and aren't made anew elsewhere; new topics go where there is
    room; after the next start, the disk mended, everything is there."""
    async with two_directories(tmp_path) as two:
        assert await two.produce_everywhere() == [0] * PARTITIONS
        lost = [i for i in range(PARTITIONS) if two.directory_of(i) == tmp_path / "b"]
    expected = [OFFLINE if index in lost else 0 for index in range(PARTITIONS)]
    disk = FaultyDisk()
    disk.broken[tmp_path / "b"] = errno.EIO
    async with two_directories(tmp_path, disk, create=False) as two:
        assert await two.produce_everywhere() == expected
        broker = two.running.broker
        await two.running.topic("u", 2)
        assert {p.log.directory.parent for p in broker.partitions()} == {tmp_path / "a"}
        assert broker.partition("u", 1).log.log_end_offset == 0
        await broker.retry_offline()
        assert [two.running.broker.is_offline("t", i) for i in lost] == [True] * len(lost)
    async with two_directories(tmp_path, create=False) as two:
        assert await two.produce_everywhere() == [0] * PARTITIONS
        ends = [two.running.broker.partition("t", i).log.log_end_offset for i in range(PARTITIONS)]
        assert ends == [2 if index in lost else 3 for index in range(PARTITIONS)]


async def test_a_topic_deleted_while_its_directory_is_offline(tmp_path: Path) -> None:
    """A new topic of that name has nothing of the old one, also when the directory is back."""
    async with two_directories(tmp_path) as two:
        assert await two.produce_everywhere() == [0] * PARTITIONS
        two.disk.broken[tmp_path / "b"] = errno.EIO
        await two.produce_everywhere()
        broker = two.running.broker
        topic_id = broker.image.topics_by_name["t"].topic_id
        await broker.commit(lambda image: delete_topic(image, topic_id))
        await two.running.topic("t", PARTITIONS)
        assert await two.produce_everywhere() == [0] * PARTITIONS
        assert {two.directory_of(index) for index in range(PARTITIONS)} == {tmp_path / "a"}
    async with two_directories(tmp_path, create=False) as two:
        ends = [two.running.broker.partition("t", i).log.log_end_offset for i in range(PARTITIONS)]
        assert ends == [1] * PARTITIONS
    strays = [path.name for path in (tmp_path / "b").iterdir() if path.name.startswith("t-")]
    assert len(strays) == 2
    assert all(name.endswith("-stray") for name in strays)


async def test_the_broker_stops_when_every_directory_has_failed(tmp_path: Path) -> None:
    """With a line that names them and says why."""
    disk = FaultyDisk()
    async with two_directories(tmp_path, disk) as two:
        check = two.running.server.housekeeping.check_storage
        disk.broken[tmp_path / "a"] = errno.EIO
        await two.produce_everywhere()
        check()
        disk.broken[tmp_path / "b"] = errno.EIO
        await two.produce_everywhere()
        with pytest.raises(StorageLost, match="every data directory has failed") as caught:
            check()
        assert f"{tmp_path / 'a'}: cannot append to" in str(caught.value)
        assert f"{tmp_path / 'b'}: cannot append to" in str(caught.value)


async def test_a_group_whose_partition_is_offline(tmp_path: Path) -> None:
    """Its clients look for another coordinator, and are told that there is none."""
    disk = FaultyDisk()
    settings = {"offsets.topic.num.partitions": "1", "log.dirs": f"{tmp_path / 'a'}"}
    async with running_server(tmp_path, settings, disk) as running:
        raw = await running.connect()
        find = FindCoordinatorRequest(coordinator_keys=["g"])
        found = await raw.request(find, 4, FindCoordinatorResponse)
        assert found.coordinators[0].error_code == 0
        heartbeat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        known = await raw.request(heartbeat, 4, HeartbeatResponse)
        assert known.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        running.broker.partition("__consumer_offsets", 0).log.health.fail("broken", OSError("x"))
        lost = await raw.request(heartbeat, 4, HeartbeatResponse)
        assert lost.error_code == ErrorCode.NOT_COORDINATOR
        found = await raw.request(find, 4, FindCoordinatorResponse)
        assert found.coordinators[0].error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        await raw.aclose()


async def test_the_metadata_may_have_a_directory_of_its_own(tmp_path: Path) -> None:
    """metadata.log.dir; without it the first directory has the metadata, and a start without that
    one is refused, for nobody knows the topics."""
    settings = {"metadata.log.dir": str(tmp_path / "m"), "log.dirs": f"{tmp_path / 'a'}"}
    for _ in range(2):
        async with running_server(tmp_path, settings):
            assert (tmp_path / "m" / "kwire-metadata.db").exists()
            assert not (tmp_path / "a" / "kwire-metadata.db").exists()
    disk = FaultyDisk()
    disk.broken[tmp_path / "b"] = errno.EIO
    config = {"log.dirs": f"{tmp_path / 'b'},{tmp_path / 'a'}", "listeners": "PLAINTEXT://:0"}
    with pytest.raises(StartError, match=r"the metadata is in .*b, which is offline"):
        await Server(BrokerConfig.load(config), disk=disk).serve()
