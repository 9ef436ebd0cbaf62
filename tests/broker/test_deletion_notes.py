"""The note of a large deletion: the next start ends what a stop or a crash has interrupted."""

import shutil
import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
import trio

from kwire.broker.broker import Broker
from kwire.broker.served_partitions import LOGS_PER_TURN
from kwire.log import deletions
from kwire.log.checkpoints import TopicPartition
from kwire.log.deletions import note_deletions
from kwire.log.manager import LogManager
from kwire.metadata.changes import TopicDeleted
from kwire.metadata.controller import NewTopic, create_topic
from kwire.testing.waiting import until
from tests.support.in_process import running_server

MANY = 5 * LOGS_PER_TURN


async def _create(broker: Broker, name: str, partitions: int) -> None:
    wanted = NewTopic(name, partitions, 1)
    await broker.commit(lambda image: create_topic(image, wanted, broker.random))


async def _delete(broker: Broker, name: str) -> None:
    await broker.commit(lambda image: [TopicDeleted(image.topics_by_name[name].topic_id)])


def _directories(data: Path) -> list[str]:
    return [path.name for path in data.glob("large*")]


@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_the_next_start_ends_an_interrupted_deletion(tmp_path: Path, how: str) -> None:
    """After SIGTERM or kill -9 in the middle; nothing is a stray that nobody removes."""
    data = tmp_path / "data"
    async with running_server(data) as server:
        broker, served = server.broker, server.broker._served
        await _create(broker, "large", MANY)
        await _create(broker, "kept", 1)
        await served._changing.acquire()  # the task of the jobs waits for it until it is ended
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_delete, broker, "large")
            await until(lambda: bool(served._jobs))
            await served._go_on(served._jobs[0])
            names = _directories(data)
            assert len([name for name in names if name.endswith("-delete")]) == LOGS_PER_TURN
            assert len(names) == MANY
            if how == "kill":  # what a dead process leaves
                shutil.copytree(data, tmp_path / "left")
            nursery.cancel_scope.cancel()
    if how == "kill":
        data = tmp_path / "left"
    async with running_server(data) as server:
        assert [(one.topic, one.index) for one in server.broker.partitions()] == [("kept", 0)]
        names = _directories(data)
        assert len(names) == MANY - LOGS_PER_TURN
        assert all(name.endswith("-delete") for name in names)
        assert not (data / "kwire-deletions").exists()


async def test_the_newest_note_of_deletions_is_the_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A note that a slow thread writes doesn't replace that of the next large deletion."""
    entered, release = threading.Event(), threading.Event()

    def slow(manager: LogManager, doomed: Mapping[TopicPartition, bytes]) -> None:
        if not doomed:
            entered.set()
            release.wait(10)
        note_deletions(manager, doomed)

    monkeypatch.setattr(deletions, "note_deletions", slow)
    async with running_server(tmp_path) as server, trio.open_nursery() as nursery:
        served = server.broker._served
        await _create(server.broker, "t", 1)
        (replica,) = server.broker.partitions()
        nursery.start_soon(served._note_deletions)
        await until(entered.is_set)
        served._doomed["t", 0] = replica
        nursery.start_soon(served._note_deletions)
        await until(lambda: served._noting.statistics().tasks_waiting == 1)
        release.set()
        await until(lambda: not served._noting.locked())
        assert (tmp_path / "kwire-deletions").exists()
        served._doomed.clear()
