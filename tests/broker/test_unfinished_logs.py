"""Logs of a large commit that a crash has left unmade are made after the next start."""

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest

from kwire.broker.served_partitions import ServedPartitions
from kwire.testing.waiting import until
from tests.broker.test_log_jobs import MANY, create, directories
from tests.support.in_process import running_server

SMALL = {"offsets.topic.num.partitions": "2"}


async def test_what_a_crash_left_unmade_is_made_after_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other topics are served at once, and what was made is served, too."""
    async with running_server(tmp_path, SMALL) as server:
        await create(server.broker, "large", MANY)
        await create(server.broker, "small", 1)
        await server.broker.groups.ensure_topic()
    for name in directories(tmp_path, "large-")[2:] + directories(tmp_path, "__consumer_offsets-"):
        shutil.rmtree(tmp_path / name)
    released = threading.Event()
    real = ServedPartitions._open_new

    def open_new(served: ServedPartitions, missing: Any) -> Any:
        released.wait(60)
        return real(served, missing)

    monkeypatch.setattr(ServedPartitions, "_open_new", open_new)
    async with running_server(tmp_path, SMALL) as server:
        broker = server.broker
        assert len(broker.partitions()) == 3
        assert broker.partition("small", 0)
        released.set()
        await until(lambda: len(broker.partitions()) == MANY + 1 + 2)
        assert broker.groups.coordinator("g")
        await create(broker, "next", MANY)
    assert len(directories(tmp_path, "large-")) == MANY


async def test_what_may_be_in_a_failed_directory_is_not_made(tmp_path: Path) -> None:
    """However much it is: nobody may take empty logs for those that are offline."""
    two = {"log.dirs": f"{tmp_path / 'a'},{tmp_path / 'b'}"}
    async with running_server(tmp_path, two) as server:
        await create(server.broker, "large", MANY)
    shutil.rmtree(tmp_path / "b")
    (tmp_path / "b").write_text("no directory", encoding="utf-8")
    async with running_server(tmp_path, two) as server:
        here = len(directories(tmp_path / "a", "large-"))
        assert 0 < here < MANY
        assert len(server.broker.partitions()) == here
        assert len(server.broker._served.offline()) == MANY - here
        assert not server.broker._served._jobs
