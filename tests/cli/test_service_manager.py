"""A service manager learns when the broker is ready, when it stops, and that its loop is alive."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import trio
from trio.testing import MockClock

from kwire.service import SIGNS_PER_WATCHDOG_INTERVAL, ServiceManager
from kwire.testing.process import BrokerProcess

WAIT_S = 30.0


@pytest.fixture
def manager() -> Iterator[socket.socket]:
    """The socket of a service manager. Its path is short, because such paths have 108 bytes."""
    with (
        TemporaryDirectory(prefix="kwire-") as directory,
        _datagrams(f"{directory}/s") as listening,
    ):
        yield listening


def _datagrams(name: str) -> socket.socket:
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    listening.settimeout(WAIT_S)
    listening.bind(name)
    return listening


def _lines(listening: socket.socket) -> list[str]:
    """The lines of the next message."""
    return listening.recv(4096).decode().split("\n")


def test_a_broker_tells_when_it_starts_is_ready_and_stops(
    manager: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this order, and READY only when clients can connect."""
    monkeypatch.setenv("NOTIFY_SOCKET", manager.getsockname())
    broker = BrokerProcess(tmp_path).start()
    assert _lines(manager) == ["STATUS=starting: opening the logs"]
    assert _lines(manager) == ["READY=1", f"STATUS=serving on {broker.bootstrap}"]
    assert broker.stop() == 0
    assert _lines(manager) == ["STOPPING=1", "STATUS=stopping: closing connections and logs"]
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        _lines(manager)  # no sign of life, because nobody asked for one


def test_a_broker_that_cannot_start_is_never_ready(
    manager: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Units that need Kafka must not start then."""
    monkeypatch.setenv("NOTIFY_SOCKET", manager.getsockname())
    (tmp_path / "file").touch()
    with pytest.raises(Exception, match="cannot use any data directory"):
        BrokerProcess(tmp_path / "file").start()
    assert _lines(manager) == ["STATUS=starting: opening the logs"]
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        _lines(manager)


def test_a_broker_sends_the_signs_of_life_that_are_asked_for(
    manager: socket.socket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it stops."""
    monkeypatch.setenv("NOTIFY_SOCKET", manager.getsockname())
    monkeypatch.setenv("WATCHDOG_USEC", "60000")
    with BrokerProcess(tmp_path):
        seen = [_lines(manager)[0] for _ in range(5)]
    assert seen[1:] == ["READY=1", "WATCHDOG=1", "WATCHDOG=1", "WATCHDOG=1"]


async def test_the_event_loop_sends_the_signs_of_life(
    manager: socket.socket, autojump_clock: MockClock
) -> None:
    """Three in each interval of the watchdog, as long as the loop turns."""
    environment = {"NOTIFY_SOCKET": manager.getsockname(), "WATCHDOG_USEC": "30000000"}
    with trio.move_on_after(59):
        await ServiceManager(environment).keep_telling()
    manager.setblocking(False)
    signs = 0
    try:
        while _lines(manager) == ["WATCHDOG=1"]:
            signs += 1
    except BlockingIOError:
        assert signs == 2 * SIGNS_PER_WATCHDOG_INTERVAL


@pytest.mark.parametrize(
    "watchdog",
    [
        {},
        {"WATCHDOG_USEC": "0"},
        {"WATCHDOG_USEC": "soon"},
        {"WATCHDOG_USEC": "1000000", "WATCHDOG_PID": str(os.getppid())},
    ],
)
async def test_without_a_watchdog_there_are_no_signs(
    manager: socket.socket, autojump_clock: MockClock, watchdog: dict[str, str]
) -> None:
    """Nobody waits for them, or for those of another process."""
    with trio.fail_after(60):
        await ServiceManager({"NOTIFY_SOCKET": manager.getsockname(), **watchdog}).keep_telling()
    manager.setblocking(False)
    with pytest.raises(BlockingIOError):
        _lines(manager)


def test_a_service_manager_that_is_gone_harms_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients are served, and the broker stops cleanly."""
    monkeypatch.setenv("NOTIFY_SOCKET", str(tmp_path / "gone"))
    broker = BrokerProcess(tmp_path / "data").start()
    assert broker.stop() == 0
    assert "Traceback" not in broker.log()
    assert "stopped cleanly" in broker.log()


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="only Linux has abstract names")
def test_an_abstract_socket_is_found() -> None:
    """systemd writes an @ for the zero byte that such a name begins with."""
    name = f"kwire-test-{os.getpid()}"
    with _datagrams(f"\0{name}") as listening:
        ServiceManager({"NOTIFY_SOCKET": f"@{name}"}).stopping()
        assert _lines(listening)[0] == "STOPPING=1"
