"""When a process may sleep in place of trio, and for how long."""

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import trio

from kwire.connection.own_wait import FRESH_S, OwnWait, own_wait
from kwire.testing.process import BrokerProcess

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux tells which descriptor is trio's epoll instance"
)


def test_it_sleeps_only_when_it_is_known_that_no_other_task_can_run():
    """Which it learns when trio's loop turns, whatever was before."""

    async def main():
        waiting = OwnWait(0)
        task = trio.lowlevel.current_task()
        known = []
        async with trio.open_nursery() as nursery:
            for step in (
                partial(waiting.before_task_step, task),
                partial(waiting.task_scheduled, task),
                partial(waiting.before_io_wait, 0.0),
                partial(waiting.task_scheduled, task),
                partial(waiting.task_scheduled, task),
                partial(waiting.before_task_step, task),
                partial(waiting.before_task_step, task),
                partial(waiting.before_task_step, task),
                partial(nursery.start_soon, trio.lowlevel.checkpoint),
                partial(waiting.before_io_wait, 0.0),
            ):
                step()
                known.append(waiting.wait_s() > 0)
        assert known == [*[False] * 2, True, *[False] * 3, True, *[False] * 3]

    trio.run(main)


def test_it_sleeps_no_longer_than_trio_would():
    """Until the next deadline; not at all when one is past.

    What trio has said counts for a moment, and only until a task has run.
    """

    async def main():
        waiting = OwnWait(0)
        waiting.before_io_wait(0.0)
        with trio.move_on_after(3):
            assert 2 < waiting.wait_s() <= 3
            assert 0 <= waiting.wait_s() <= FRESH_S
            assert waiting.wait_s(trio.current_time() - 1) == 0
            with trio.CancelScope(deadline=trio.current_time() + 0.001) as scope:
                while trio.current_time() < scope.deadline + FRESH_S:
                    pass
                assert waiting.wait_s() == 0
                await trio.lowlevel.checkpoint()  # which is cancelled
        waiting.before_io_wait(0.0)
        assert waiting.wait_s() == 3600

    trio.run(main)


def test_it_is_known_which_descriptor_is_that_of_trio(monkeypatch):
    """Where there are two, or none is told of, nobody guesses."""

    async def main(instances):
        monkeypatch.setattr("kwire.connection.own_wait.epoll_instances", lambda: set(instances))
        return own_wait()

    one = trio.run(main, [7])
    assert one is not None
    assert one.fileno() == 7
    assert trio.run(main, [7, 8]) is None
    assert trio.run(main, []) is None


def _watched(process: Path) -> Iterator[tuple[str, set[int]]]:
    """The epoll instances of a process, with the descriptors that they watch."""
    for info in (process / "fdinfo").iterdir():
        with suppress(FileNotFoundError):  # closed since it was listed
            if os.readlink(process / "fd" / info.name) == "anon_inode:[eventpoll]":
                text = info.read_text()
                yield info.name, {int(fd) for fd in re.findall(r"^tfd: *(\d+)", text, re.MULTILINE)}


def test_serve_sleeps_so(tmp_path):
    """Its poller watches trio's epoll instance, not the other way round."""
    with BrokerProcess(tmp_path) as broker:
        process = Path("/proc", str(broker.pid))
        watched = dict(_watched(process))
    trios, pollers = sorted(map(int, watched))
    assert trios in watched[str(pollers)]
    assert pollers not in watched[str(trios)]
