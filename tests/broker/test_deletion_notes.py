"""The note of a large deletion: the next start ends what a stop or a crash has interrupted."""

import shutil
from pathlib import Path

import trio
import trio.testing

from kwire.broker.replica.replica_manager import LOGS_PER_TURN
from kwire.metadata.changes import TopicDeleted
from kwire.testing.waiting import until
from tests.support.gated_disk import REMOVE, RENAME, GatedDisk
from tests.support.in_process import running_server

MANY = 5 * LOGS_PER_TURN


def _directories(data: Path) -> list[str]:
    return [path.name for path in data.glob("large*")]


def _deleted(data: Path) -> list[str]:
    return [name for name in _directories(data) if name.endswith("-delete")]


async def test_the_next_start_ends_an_interrupted_deletion(tmp_path: Path) -> None:
    """After kill -9 in the middle; nothing is a stray that nobody removes."""
    data, left, disk = tmp_path / "data", tmp_path / "left", GatedDisk()
    async with running_server(data, disk=disk) as server:
        await server.topic("large", MANY)
        await server.topic("kept")
        gate = disk.hold(RENAME, "large-")
        gate.let_pass(LOGS_PER_TURN)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.delete_topic, "large")
            await until(lambda: bool(gate.waiting) and len(_deleted(data)) == LOGS_PER_TURN)
            assert len(_directories(data)) == MANY
            shutil.copytree(data, left)  # what a dead process leaves
            gate.open()
    await _is_ended(left, MANY - LOGS_PER_TURN)


async def test_the_next_start_ends_a_deletion_that_a_stop_has_interrupted(tmp_path: Path) -> None:
    """The thread ends its slice, and no other one begins."""
    disk = GatedDisk()
    async with running_server(tmp_path, disk=disk) as server:
        await server.topic("large", MANY)
        await server.topic("kept")
        gate = disk.hold(RENAME, "large-")
        large = server.broker.image.topics_by_name["large"].topic_id
        async with trio.open_nursery() as nursery:
            nursery.start_soon(server.broker.commit, lambda _: [TopicDeleted(large)])
            await until(lambda: bool(gate.waiting))
            nursery.cancel_scope.cancel()
        await server.hang_up()
        server.server.stop()
        await until(lambda: server.broker.is_stopping)
        await trio.testing.wait_all_tasks_blocked()
        gate.open()
    deleted = len(_deleted(tmp_path))
    assert LOGS_PER_TURN <= deleted < MANY
    await _is_ended(tmp_path, MANY - deleted)


async def _is_ended(data: Path, left: int) -> None:
    """The next start deletes what is left of the topic, and nothing else."""
    async with running_server(data) as server:
        assert [(one.topic, one.index) for one in server.broker.partitions()] == [("kept", 0)]
        assert len(_directories(data)) == len(_deleted(data)) == left
        assert not (data / "kwire-deletions").exists()


async def test_the_newest_note_of_deletions_is_the_last(tmp_path: Path) -> None:
    """A slow thread that removes a note doesn't remove that of the next large deletion."""
    disk = GatedDisk()
    async with running_server(tmp_path, disk=disk) as server:
        await server.topic("large", MANY)
        await server.topic("next", MANY)
        removal, deletion = disk.hold(REMOVE, "kwire-deletions"), disk.hold(RENAME, "next-")
        async with trio.open_nursery() as nursery:
            nursery.start_soon((await server.connect()).delete_topic, "large")
            await until(lambda: bool(removal.waiting))
            nursery.start_soon((await server.connect()).delete_topic, "next")
            await until(lambda: "next" not in server.broker.image.topics_by_name)
            await trio.testing.wait_all_tasks_blocked()
            removal.open()
            await until(lambda: bool(deletion.waiting))
            assert (tmp_path / "kwire-deletions").exists()
            deletion.open()
        assert not (tmp_path / "kwire-deletions").exists()
