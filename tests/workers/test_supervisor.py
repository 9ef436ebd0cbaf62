"""When the supervisor starts a worker again, and when it gives up; with a template that is played.

Time is virtual, so pauses cost none.
"""

import fcntl
import json
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from kwire.testing.waiting import until
from kwire.workers.directory import WorkersError
from kwire.workers.messages import Ends
from kwire.workers.supervisor import (
    DEATHS_WITHIN_S,
    FIRST_PAUSE_S,
    MOST_DEATHS,
    SHORT_LIFE_S,
    Supervisor,
    TemplateEnded,
)
from kwire.workers.template import Template

KILLED = int(signal.SIGKILL)
READY = {"ready": [["127.0.0.1", 9092]], "http": None, "token": None, "cluster": "c"}


class PlayedTemplate:
    """Obeys the supervisor; ``behave`` plays a worker from its start on."""

    def __init__(self, behave: Callable) -> None:
        control, self._control = socket.socketpair()
        life, self.life = socket.socketpair()
        self.ends = Ends(control, life, 0)
        self.starts: list[int] = []
        self.stopped = trio.Event()
        self.killed = trio.Event()
        self.clock = MockClock(autojump_threshold=0.01)
        self._behave = behave
        self._files: list[int] = []

    async def run(self, nursery: trio.Nursery) -> None:
        """Obey until the supervisor is gone."""
        self._control.setblocking(False)
        while True:
            await trio.lowlevel.wait_readable(self._control)
            received, files, _, _ = socket.recv_fds(self._control, 4096, 16)
            self._files += files
            for line in received.decode().splitlines():
                command, _, number = line.partition(" ")
                if command == "bind":
                    self.tell(0, bound=True)
                elif command == "start":
                    self.starts.append(int(number))
                    nursery.start_soon(self._behave, self, int(number))
                elif command == "kill":
                    self.killed.set()
                else:
                    self.stopped.set()

    def tell(self, number: int, **message: object) -> None:
        """Send a message about a worker."""
        self._control.sendall(json.dumps({"worker": number, **message}).encode() + b"\n")

    def end(self) -> None:
        """Close the template's own sockets, as its death does."""
        self._control.close()
        self.life.close()

    def close(self) -> None:
        """Close all sockets."""
        for one in (self._control, self.life, self.ends.control, self.ends.life):
            one.close()
        for file in self._files:
            os.close(file)


async def _well(template: PlayedTemplate, number: int) -> None:
    """A worker that serves until it is stopped."""
    template.tell(number, **READY)
    await template.stopped.wait()
    template.tell(number, ended=0)


def _play(behave: Callable, during: Callable | None = None) -> list[int]:
    """Supervise two workers; ``during`` is called when they are ready. Returns who was started."""

    async def play() -> None:
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(template.run, nursery)
                supervisor = Supervisor(template.ends, None, 2)
                async with trio.open_nursery() as supervising:
                    await supervising.start(supervisor.run)
                    if during is not None:
                        await during(supervisor, template)
                nursery.cancel_scope.cancel()
        finally:
            template.close()

    template = PlayedTemplate(behave)
    trio.run(play, clock=template.clock)
    return template.starts


def _reason(group: BaseExceptionGroup) -> str:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, WorkersError)
    return str(error)


def test_all_are_started_and_stopped():
    async def stop(supervisor, template):
        assert sorted(template.starts) == [1, 2]
        supervisor.stop()
        supervisor.stop()

    _play(_well, stop)


def test_a_dead_worker_starts_again():
    """At once, and the other one isn't touched."""

    async def behave(template, number):
        if number == 2 and template.starts.count(2) == 1:
            template.tell(2, **READY)
            template.tell(2, ended=KILLED)
        else:
            await _well(template, number)

    async def stop(supervisor, template):
        await until(lambda: len(template.starts) == 3, what="its start")
        supervisor.stop()

    assert _play(behave, stop) == [1, 2, 2]


def test_a_worker_that_hangs_is_ended_and_started_again():
    """The template is told to end it; it comes back when its process has ended."""

    async def behave(template, number):
        if number == 2 and template.starts.count(2) == 1:
            template.tell(2, **READY)
            await template.killed.wait()
            template.tell(2, ended=KILLED)
        else:
            await _well(template, number)

    async def hang(supervisor, template):
        supervisor.end(supervisor.workers[1], 9000)
        await until(lambda: len(template.starts) == 3, what="its start")
        supervisor.stop()

    assert _play(behave, hang) == [1, 2, 2]


def test_a_worker_that_keeps_ending_ends_all():
    """After pauses that double; the line names it and why it ended."""

    async def behave(template, number):
        if number == 1:
            await _well(template, number)
        else:
            template.tell(2, **READY)
            template.tell(2, ended=KILLED)

    with pytest.raises(BaseExceptionGroup) as raised:
        _play(behave)
    reason = _reason(raised.value)
    assert reason.startswith(f"worker 2 has ended {MOST_DEATHS} times within 30 s, lastly: it was ")
    assert "SIGKILL" in reason


@pytest.mark.parametrize(("lived_s", "waits"), [(0.0, True), (SHORT_LIFE_S, False)])
def test_only_a_worker_that_has_lived_shortly_waits_for_its_start(lived_s, waits):
    """Its second death makes it wait; one that has served for a while is started at once."""
    ended_s, started_s, is_back = [], [], trio.Event()

    async def behave(template, number):
        if number == 1:
            await _well(template, number)
            return
        started_s.append(trio.current_time())
        template.tell(2, **READY)
        if len(started_s) == 3:
            is_back.set()
            await template.stopped.wait()
            template.tell(2, ended=0)
            return
        template.clock.jump(lived_s)
        ended_s.append(trio.current_time())
        template.tell(2, ended=KILLED)

    async def stop(supervisor, template):
        await is_back.wait()  # no timer runs, so the time stands still
        supervisor.stop()

    _play(behave, stop)
    assert (started_s[2] - ended_s[1] >= FIRST_PAUSE_S) is waits


def test_a_worker_that_ends_now_and_then_is_always_started_again():
    async def behave(template, number):
        if number == 2 and template.starts.count(2) <= 2 * MOST_DEATHS:
            template.tell(2, **READY)
            template.clock.jump(DEATHS_WITHIN_S / (MOST_DEATHS - 2))
            template.tell(2, ended=1 << 8)
        else:
            await _well(template, number)

    async def stop(supervisor, template):
        await until(
            lambda: template.starts.count(2) > 2 * MOST_DEATHS, timeout_s=900, what="its starts"
        )
        supervisor.stop()

    assert _play(behave, stop).count(2) == 2 * MOST_DEATHS + 1


def test_a_worker_that_cannot_start_ends_all():
    """With its own reason; the others are stopped first."""

    async def behave(template, number):
        if number == 1:
            await _well(template, number)
        else:
            template.tell(2, failed="cannot use log.dirs")
            template.tell(2, ended=1 << 8)

    with pytest.raises(BaseExceptionGroup) as raised:
        _play(behave)
    assert _reason(raised.value) == "worker 2: cannot use log.dirs"


def test_a_start_that_is_cancelled_waits_for_the_end_of_all_workers():
    """They are stopped before they are ready, as by a signal in a long recovery."""
    ended: list[int] = []

    async def behave(template, number):
        await template.stopped.wait()
        ended.append(number)
        template.tell(number, ended=0)

    async def play() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(template.run, nursery)
            async with trio.open_nursery() as supervising:
                with trio.move_on_after(1) as patience:
                    await supervising.start(Supervisor(template.ends, None, 2).run)
            assert patience.cancelled_caught
            assert sorted(ended) == [1, 2]
            nursery.cancel_scope.cancel()

    template = PlayedTemplate(behave)
    try:
        trio.run(play, clock=template.clock)
    finally:
        template.close()


def test_a_worker_that_ends_badly_at_the_stop_is_told():
    async def behave(template, number):
        template.tell(number, **READY)
        await template.stopped.wait()
        template.tell(number, ended=KILLED if number == 1 else 0)

    async def stop(supervisor, template):
        supervisor.stop()

    with pytest.raises(BaseExceptionGroup) as raised:
        _play(behave, stop)
    assert _reason(raised.value) == "worker 1: it was ended by SIGKILL"


@pytest.mark.parametrize("is_stopping", [False, True])
def test_all_end_with_the_template(is_stopping):
    """Nobody could start a worker again; a new start of the command can, if it isn't stopping."""

    async def end(supervisor, template):
        if is_stopping:
            supervisor.is_stopping = True
        template.life.close()

    with pytest.raises(BaseExceptionGroup) as raised:
        _play(_well, end)
    assert _reason(raised.value) == "the process that starts workers has ended"
    assert (raised.group_contains(TemplateEnded)) is not is_stopping


@pytest.mark.parametrize("has_bind", [False, True])
def test_a_template_that_is_killed_at_once_is_a_line(has_bind):
    """Before the first command can be sent, or before it is read."""

    async def play() -> None:
        async with trio.open_nursery() as nursery:
            if has_bind:
                nursery.start_soon(Supervisor(template.ends, None, 2).run)
                await trio.testing.wait_all_tasks_blocked()
            template.end()
            if not has_bind:
                nursery.start_soon(Supervisor(template.ends, None, 2).run)

    template = PlayedTemplate(_well)
    try:
        with pytest.raises(BaseExceptionGroup) as raised:
            trio.run(play)
    finally:
        template.close()
    assert _reason(raised.value) == "the process that starts workers has ended"
    assert not raised.group_contains(TemplateEnded), "the next one could end like this as well"


def test_a_template_ends_with_its_supervisor(monkeypatch):
    """Also where the supervisor was killed before it had read everything."""
    supervisors, own = socket.socketpair()
    life, own_life = socket.socketpair()
    with own, own_life, life:
        own.sendall(b"nobody reads this")
        supervisors.close()
        codes: list[int] = []

        def leave(code: int) -> None:
            codes.append(code)
            raise SystemExit

        monkeypatch.setattr(os, "_exit", leave)
        with pytest.raises(SystemExit):
            Template(own, own_life, [], {}, None).obey()
    assert codes == [0]


def test_a_template_may_have_any_descriptor(monkeypatch):
    """Also one beyond 1,023: it has those of the process that it was forked from."""
    for name in ("signal", "set_wakeup_fd", "pthread_sigmask"):
        monkeypatch.setattr(signal, name, lambda *_: None)
    monkeypatch.setattr(os, "setpgid", lambda *_: None)
    monkeypatch.setattr(os, "_exit", sys.exit)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 4096)), hard))
    supervisors, near = socket.socketpair()
    life, own_life = socket.socketpair()
    far = socket.socket(fileno=fcntl.fcntl(near, fcntl.F_DUPFD_CLOEXEC, 1500))
    template = Template(far, own_life, [], {}, None)
    with near, far, life, own_life:
        supervisors.close()
        with pytest.raises(SystemExit) as ended:
            template.run()
        assert ended.value.code == 0
        for one in template.waking:
            one.close()
