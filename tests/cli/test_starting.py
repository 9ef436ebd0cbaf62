"""``kwire serve`` while it starts: a signal ends it, and its first line may find no reader."""

import os
import resource
import shlex
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from kwire.cli import main, process_tuning
from kwire.cli.process_tuning import start_server
from kwire.log.loading import LoadingStopped
from kwire.log.manager import LogManager
from kwire.testing.process import BrokerProcess


def test_a_signal_ends_the_start_and_nothing_is_said_to_be_ready(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while a thread recovers logs; the exit code is that of a stop."""
    open_logs = LogManager.open

    def open_slowly(*of: Any, is_stopped: Callable[[], bool], **settings: Any) -> LogManager:
        os.kill(os.getpid(), signal.SIGTERM)
        while not is_stopped():  # as long as a recovery of hours
            pass
        return open_logs(*of, is_stopped=is_stopped, **settings)

    monkeypatch.setattr(LogManager, "open", open_slowly)
    monkeypatch.setattr(process_tuning, "end_process", lambda exit_code: exit_code)
    monkeypatch.setattr(process_tuning, "tune_process", lambda: None)
    assert main(["serve", "--data-dir", str(tmp_path), "--listen", "127.0.0.1:0"]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / ".kafka_cleanshutdown").exists(), "every log was loaded, none was written"


async def _no_signal() -> AsyncIterator[int]:
    await trio.sleep_forever()
    yield 0


async def test_a_wait_for_other_servers_ends_with_a_signal_too() -> None:
    """A broker that can't reach etcd waits without any thread."""

    async def one_signal() -> AsyncIterator[int]:
        yield signal.SIGINT
        await trio.sleep_forever()

    async def serve(task_status: trio.TaskStatus[None]) -> None:
        await trio.sleep_forever()

    stops: list[bool] = []
    async with trio.open_nursery() as nursery:
        with pytest.raises(LoadingStopped):
            await start_server(nursery, serve, one_signal(), lambda: stops.append(True))
    assert stops == [True]


async def test_without_a_signal_the_start_goes_on() -> None:
    """And what comes later is left to the caller."""

    async def serve(task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await trio.sleep_forever()

    async with trio.open_nursery() as nursery:
        await start_server(nursery, serve, _no_signal(), lambda: None)
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("stdout", "workers"), [("unread", []), ("/dev/full", []), ("/dev/full", ["--workers", "2"])]
)
def test_a_broker_serves_though_its_first_line_finds_no_reader(
    tmp_path: Path, stdout: str, workers: list[str]
) -> None:
    """``kwire serve | head`` is no error; the log says where the broker is ready."""
    if stdout == "unread":
        reading, writing = os.pipe()
        os.close(reading)
    else:
        writing = os.open(stdout, os.O_WRONLY)
    options = ["--data-dir", str(tmp_path), "--listen", "127.0.0.1:0", *workers]
    with subprocess.Popen(
        [sys.executable, "-m", "kwire", "serve", *options],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        os.close(writing)
        assert process.stderr is not None
        told = next(line for line in process.stderr if "ready: 127.0.0.1:" in line)
        process.send_signal(signal.SIGTERM)
        said = process.communicate()[1]
    assert "WARNING kwire.cli.process_tuning: standard output cannot be written (" in told
    assert (process.returncode, "Traceback" in said) == (0, False)
    assert "stopped cleanly" in said


def test_a_process_with_keys_leaves_no_dump() -> None:
    """The limit of one byte also keeps the kernel from writing into a pipe."""
    code = (
        "import resource; from kwire.cli.process_tuning import leave_no_dump; leave_no_dump(); "
        "print(*resource.getrlimit(resource.RLIMIT_CORE))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    soft, hard = done.stdout.split()
    assert soft == ("0" if hard == "0" else "1")


TOKENS = "delegation.token.secret.key"
FIRST = "kwire.scram.first.users"
USER = "SCRAM-SHA-256=[name=alice,iterations=4096,salt=c2FsdA==,saltedpassword=c2VjcmV0]"


@pytest.fixture
def dumps() -> Iterator[None]:
    """Dumps are allowed, whatever this process has forbidden itself for a command."""
    before = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (before[1], before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, before)


@pytest.mark.parametrize(
    ("settings", "is_left"),
    [
        ({}, True),
        ({TOKENS: "top-secret"}, False),
        ({FIRST: USER}, False),
        ({TOKENS: "${env:SECRET}", "config.providers": "env"}, False),
    ],
)
def test_a_broker_with_a_secret_leaves_no_dump_and_no_trace_of_it(
    tmp_path: Path,
    settings: dict[str, str],
    is_left: bool,
    dumps: None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of whatever kind the secret is; what its file says is on no command line."""
    monkeypatch.setenv("SECRET", "from-outside")
    provider = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"
    given = {**settings, "config.providers.env.class": provider} if settings else {}
    file = tmp_path / "server.properties"
    file.touch(mode=0o600)
    file.write_text("".join(f"{name}={value}\n" for name, value in given.items()))
    with BrokerProcess(tmp_path / "data", options=["--config", str(file)]) as broker:
        place = Path(f"/proc/{broker.pid}")
        [limit] = [one for one in (place / "limits").read_text().splitlines() if "core" in one]
        command = (place / "cmdline").read_text().replace("\0", " ")
        log = broker.log()
    *_, soft, hard, _ = limit.split()
    assert (soft != "1") == is_left or hard == "0"
    assert shlex.quote(str(file)) in command
    for secret in ("top-secret", "saltedpassword", "from-outside"):
        assert secret not in command
        assert secret not in log


def test_a_command_with_client_properties_leaves_no_dump(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They have a password, or a key."""
    called = []
    monkeypatch.setattr(process_tuning, "leave_no_dump", lambda: called.append(True))
    file = tmp_path / "client.properties"
    file.write_text("security.protocol=PLAINTEXT\n")
    command = ["topics", "list", "-b", "127.0.0.1:1", "--timeout", "1"]
    assert main(command) == 1
    assert not called
    assert main([*command, "--command-config", str(file)]) == 1
    assert called


def test_a_command_starts_over_but_not_at_once_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same interpreter and arguments, and an environment that says so."""
    calls: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(os, "environ", {})
    monkeypatch.setattr(os, "execv", lambda *call: calls.append(call))
    monkeypatch.setattr(sys, "orig_argv", ["python3", "-P", "-m", "kwire", "serve"])
    monkeypatch.setattr("time.monotonic", lambda: now_s)
    now_s = 100.0
    assert process_tuning.may_restart()
    assert not process_tuning.has_restarted()
    process_tuning.restart_process()
    assert calls == [(sys.executable, [sys.executable, "-P", "-m", "kwire", "serve"])]
    assert process_tuning.has_restarted()
    now_s = 129.0
    assert not process_tuning.may_restart()
    now_s = 131.0
    assert process_tuning.may_restart()
