"""``cordoned.log.dirs``: where no new replicas come, as Kafka 4.4.0 answers (KIP-1066)."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kwire.config.broker import BrokerConfig
from kwire.config.settings import ConfigError
from kwire.errors import ErrorCode
from kwire.metadata.image import ConfigResourceType
from kwire.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from kwire.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
)
from kwire.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.protocol.messages.describe_log_dirs import (
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from tests.support.in_process import RunningServer, running_server

NAME = "cordoned.log.dirs"
SET, DELETE = 0, 1
ALL_CORDONED = "have all their log directories cordoned"


class TwoDirectories:
    """A server with the directories a and b."""

    def __init__(self, path: Path, server: RunningServer) -> None:
        self.paths = {name: str(path / name) for name in "ab"}
        self.server = server

    async def cordon(self, value: str | None) -> ErrorCode:
        """Set the config, or take it away."""
        operation = DELETE if value is None else SET
        config = AlterableConfig(name=NAME, config_operation=operation, value=value)
        resource = AlterConfigsResource(
            resource_type=ConfigResourceType.BROKER, resource_name="1", configs=[config]
        )
        request = IncrementalAlterConfigsRequest(resources=[resource])
        answer = await self.server.request(request, 1, IncrementalAlterConfigsResponse)
        return ErrorCode(answer.responses[0].error_code)

    async def create(self, name: str, count: int = 1, *, is_assigned: bool = False) -> tuple:
        """Create a topic; error and message."""
        topic = CreatableTopic(name=name, num_partitions=count, replication_factor=1)
        if is_assigned:
            topic.num_partitions = topic.replication_factor = -1
            topic.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[1])]
        request = CreateTopicsRequest(topics=[topic], timeout_ms=10_000)
        (found,) = (await self.server.request(request, 5, CreateTopicsResponse)).topics
        return found.error_code, found.error_message

    async def add_partition(self, name: str, count: int, *, is_assigned: bool = False) -> tuple:
        """One partition more; error and message."""
        assigned = [CreatePartitionsAssignment(broker_ids=[1])] if is_assigned else None
        topic = CreatePartitionsTopic(name=name, count=count, assignments=assigned)
        request = CreatePartitionsRequest(topics=[topic], timeout_ms=10_000)
        (found,) = (await self.server.request(request, 3, CreatePartitionsResponse)).results
        return found.error_code, found.error_message

    async def move(self, name: str, directory: str) -> int:
        """Move partition 0; the error."""
        topic = AlterReplicaLogDirTopic(name=name, partitions=[0])
        wanted = AlterReplicaLogDir(path=self.paths[directory], topics=[topic])
        request = AlterReplicaLogDirsRequest(dirs=[wanted])
        answer = await self.server.request(request, 2, AlterReplicaLogDirsResponse)
        return int(answer.results[0].partitions[0].error_code)

    async def partitions(self) -> dict[str, tuple[bool, int]]:
        """By directory: whether it is cordoned, and how many partitions it has."""
        answer = await self.server.request(
            DescribeLogDirsRequest(topics=None), 5, DescribeLogDirsResponse
        )
        return {
            Path(one.log_dir).name: (
                one.is_cordoned,
                sum(len(topic.partitions) for topic in one.topics),
            )
            for one in answer.results
        }


@pytest.fixture
async def two(tmp_path: Path) -> AsyncIterator[TwoDirectories]:
    """A server with two directories."""
    dirs = f"{tmp_path / 'a'},{tmp_path / 'b'}"
    async with running_server(tmp_path, {"log.dirs": dirs, "node.id": "1"}) as server:
        yield TwoDirectories(tmp_path, server)


async def test_new_replicas_go_to_the_other_directories(two: TwoDirectories) -> None:
    """Also when it has more of them; what was there before stays, and nothing is moved there."""
    await two.create("before", 2)
    assert await two.cordon(two.paths["a"]) is ErrorCode.NONE
    assert await two.create("after", 4) == (ErrorCode.NONE, None)
    assert await two.partitions() == {"a": (True, 1), "b": (False, 5)}
    assert await two.move("after", "a") == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert await two.cordon(None) is ErrorCode.NONE
    assert await two.move("after", "a") == ErrorCode.NONE


@pytest.mark.parametrize("value", ["*", "{a},{b}"])
async def test_a_broker_without_a_directory_gets_nothing_new(
    two: TwoDirectories, value: str
) -> None:
    """Wherever a client wants it; until there is one again."""
    await two.create("before")
    assert await two.cordon(value.format(**two.paths)) is ErrorCode.NONE
    for code, message in (await two.create("x"), await two.add_partition("before", 2)):
        assert code == ErrorCode.INVALID_REPLICATION_FACTOR
        assert ALL_CORDONED in message
    assigned = await two.create("x", is_assigned=True)
    added = await two.add_partition("before", 2, is_assigned=True)
    text = "The manual partition assignment includes broker 1, but all its log directories are "
    assert assigned == added == (ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{text}cordoned.")
    assert await two.cordon("") is ErrorCode.NONE
    assert await two.add_partition("before", 2) == (ErrorCode.NONE, None)


@pytest.mark.parametrize("value", ["/nowhere", "*,{a}", "{a},{a}", "{a},/nowhere"])
async def test_only_directories_of_the_broker_can_be_cordoned(
    two: TwoDirectories, value: str
) -> None:
    """Each once, or ``*`` alone; in its file as well."""
    value = value.format(**two.paths)
    assert await two.cordon(value) is ErrorCode.INVALID_REQUEST
    with pytest.raises(ConfigError, match=NAME):
        BrokerConfig.load({"log.dirs": ",".join(two.paths.values()), NAME: value})


async def test_the_file_counts_until_somebody_sets_another_value(tmp_path: Path) -> None:
    """A broker that is to be emptied starts so."""
    settings = {NAME: "*", "node.id": "1", "log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    async with running_server(tmp_path, settings) as server:
        two = TwoDirectories(tmp_path, server)
        assert (await two.create("x"))[0] == ErrorCode.INVALID_REPLICATION_FACTOR
        assert await two.partitions() == {"a": (True, 0), "b": (True, 0)}
        await two.cordon(two.paths["b"])
        assert await two.create("x", 3) == (ErrorCode.NONE, None)
        assert await two.partitions() == {"a": (False, 3), "b": (True, 0)}


async def test_a_directory_that_is_gone_cordons_nothing(tmp_path: Path) -> None:
    """It was emptied and taken out of log.dirs; what an administrator has set names it still."""
    settings = {"node.id": "1", "metadata.log.dir": str(tmp_path / "metadata")}
    both = {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    async with running_server(tmp_path, settings | both) as server:
        two = TwoDirectories(tmp_path, server)
        assert await two.cordon(two.paths["a"]) is ErrorCode.NONE
    async with running_server(tmp_path, settings | {"log.dirs": str(tmp_path / "b")}) as server:
        two = TwoDirectories(tmp_path, server)
        assert await two.create("x", 3) == (ErrorCode.NONE, None)
        assert await two.partitions() == {"b": (False, 3)}
