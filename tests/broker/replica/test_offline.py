"""A log that can't be made takes its partition offline, and nothing else."""

from pathlib import Path

import pytest
import trio
import trio.testing

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata.changes import TopicDeleted
from kwire.testing.waiting import until
from tests.support.gated_disk import MAKE, GatedDisk
from tests.support.in_process import running_server


async def test_a_partition_whose_directory_cannot_be_made(tmp_path: Path) -> None:
    """KAFKA_STORAGE_ERROR for it; the broker and its other partitions go on."""
    async with running_server(tmp_path) as server:
        broker = server.broker
        (tmp_path / "blocked-1").write_text("in the way", encoding="utf-8")
        await server.topic("blocked", 3)
        with pytest.raises(KafkaError) as caught:
            broker.partition("blocked", 1)
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert [broker.partition("blocked", index).index for index in (0, 2)] == [0, 2]
        with pytest.raises(KafkaError) as caught:
            broker.partition("blocked", 3)
        assert caught.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def test_a_name_that_is_used_again_while_it_is_offline(tmp_path: Path) -> None:
    """The log that opens later is the new topic's; another one would be put aside at a restart."""
    disk = GatedDisk()
    async with running_server(tmp_path, disk=disk) as server:
        broker = server.broker
        for name in ("a-0", "t-0"):
            (tmp_path / name).write_text("in the way", encoding="utf-8")
        await server.topic("a")
        old = await server.topic("t")
        (tmp_path / "a-0").unlink()
        gate = disk.hold(MAKE, "a-0")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(broker.retry_offline)
            await until(lambda: bool(gate.waiting))
            await broker.commit(lambda _: [TopicDeleted(old)])
            nursery.start_soon(server.topic, "t")
            await until(lambda: "t" in broker.image.topics_by_name)
            await trio.testing.wait_all_tasks_blocked()
            (tmp_path / "t-0").unlink()
            gate.open()
        new = broker.image.topics_by_name["t"].topic_id
        assert broker.partition("t", 0).topic_id == new != old
        assert broker.partition("t", 0).log.topic_id == new
        assert await server.end_offset("a") == 0
