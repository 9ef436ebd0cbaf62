"""Logs of a large commit that a crash has left unmade are made after the next start."""

import shutil
from pathlib import Path

import trio.testing

from kwire.testing.waiting import until
from tests.broker.replica.test_log_jobs import MANY, directories
from tests.support.gated_disk import MAKE, GatedDisk
from tests.support.in_process import running_server

SMALL = {"offsets.topic.num.partitions": "2"}


async def test_what_a_crash_left_unmade_is_made_after_the_start(tmp_path: Path) -> None:
    """The other topics are served at once, and what was made is served, too."""
    async with running_server(tmp_path, SMALL) as server:
        await server.topic("large", MANY)
        await server.topic("small")
        await server.find_coordinator("g")
    for name in directories(tmp_path, "large-")[2:] + directories(tmp_path, "__consumer_offsets-"):
        shutil.rmtree(tmp_path / name)
    disk = GatedDisk()
    gate = disk.hold(MAKE, "large-2")
    async with running_server(tmp_path, SMALL, disk) as server:
        broker = server.broker
        assert len(broker.partitions()) == 3
        assert await server.end_offset("small") == 0
        gate.open()
        await until(lambda: len(broker.partitions()) == MANY + 1 + 2)
        await server.commit("g", "small", 0)
        await server.topic("next", MANY)
    assert len(directories(tmp_path, "large-")) == MANY


async def test_what_may_be_in_a_failed_directory_is_not_made(tmp_path: Path) -> None:
    """However much it is: nobody may take empty logs for those that are offline."""
    two = {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    async with running_server(tmp_path, two) as server:
        await server.topic("large", MANY)
    shutil.rmtree(tmp_path / "b")
    (tmp_path / "b").write_text("no directory", encoding="utf-8")
    async with running_server(tmp_path, two) as server:
        here = len(directories(tmp_path / "a", "large-"))
        assert 0 < here < MANY
        assert len(server.broker.partitions()) == here
        assert len(server.broker.replica_manager.offline()) == MANY - here
        await trio.testing.wait_all_tasks_blocked()
        assert len(directories(tmp_path / "a", "large-")) == here
