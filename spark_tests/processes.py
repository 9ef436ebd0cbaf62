"""Processes for tests: the command ``kwire pipeline``, and Spark's own cluster."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pyspark

from kwire.testing.waiting import wait_until
from spark_tests.environment import JVM, QUICK_JVM

START_TIMEOUT_S = 300
"""How long the first batch of a process may take, on a machine that does much else."""


def toml(settings: dict[str, Any]) -> str:
    """A mapping of a pipeline's form as a file."""
    tables = {name: value for name, value in settings.items() if isinstance(value, dict)}
    steps = settings.get("transform", [])
    lines = [
        f"{name} = {json.dumps(value)}"
        for name, value in settings.items()
        if name not in tables and name != "transform"
    ]
    for title, rows in [*((f"[{name}]", rows) for name, rows in tables.items())] + [
        ("[[transform]]", one) for one in steps
    ]:
        lines.append(title)
        lines += [f"{json.dumps(name)} = {_inline(value)}" for name, value in rows.items()]
    return "\n".join(lines)


def _inline(value: Any) -> str:
    if not isinstance(value, dict):
        return json.dumps(value)
    pairs = (f"{json.dumps(name)} = {_inline(one)}" for name, one in value.items())
    return f"{{ {', '.join(pairs)} }}"


def kwire(*arguments: object) -> list[str]:
    """The command line of ``kwire pipeline``."""
    return [sys.executable, "-m", "kwire", "pipeline", *map(str, arguments)]


def spawn(command: list[str], log: Path, **environment: str) -> "subprocess.Popen[bytes]":
    """A process in a group of its own."""
    with log.open("ab") as output:
        return subprocess.Popen(
            command,
            stdout=output,
            stderr=output,
            start_new_session=True,
            env=os.environ | environment,
        )


def kill_group(child: "subprocess.Popen[bytes]") -> None:
    """``kill -9`` for a process and what it has started, such as the JVM of a driver.

    Nothing for one that has ended: the JVM of a driver ends with it.
    """
    if child.poll() is None:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


@contextmanager
def process(command: list[str], log: Path, **environment: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process in a group of its own; what is left of the group is killed afterwards."""
    child = spawn(command, log, **environment)
    try:
        yield child
    finally:
        kill_group(child)


def descendants(pid: int, text: str) -> list[int]:
    """The processes below ``pid`` whose command line contains a text (Linux)."""
    found = []
    for one in _children(pid):
        with suppress(OSError):
            if text.encode() in Path(f"/proc/{one}/cmdline").read_bytes():
                found.append(one)
        found += descendants(one, text)
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with suppress(OSError):
                found += map(int, (task / "children").read_text().split())
    return found


def of_session(session: int, text: str) -> list[int]:
    """The processes that ``spawn`` has led to and whose command line contains a text (Linux).

    Other than ``descendants`` it finds those whose parent was killed.
    """
    found = []
    for one in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            after_name = (one / "stat").read_text().rpartition(")")[2].split()
            if int(after_name[3]) == session and text.encode() in (one / "cmdline").read_bytes():
                found.append(int(one.name))
    return found


class StandaloneCluster:
    """A master and two workers of Spark's own classes; ``url`` is the master's."""

    def __init__(self, directory: Path) -> None:
        self.bin = Path(pyspark.__file__).parent / "bin"
        self.directory = directory
        self.environment = {
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_WORKER_DIR": str(directory / "work"),
            "SPARK_DAEMON_JAVA_OPTS": os.environ.get(JVM, QUICK_JVM),
        }
        self.url = ""
        self._started: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> "StandaloneCluster":
        self.directory.mkdir(parents=True, exist_ok=True)
        self._start("master.Master", "master", "--host", "127.0.0.1", "--port", "0")
        self.url = wait_until(self._address, timeout_s=START_TIMEOUT_S, what="the master")
        for name in ("worker-1", "worker-2"):
            self._start(
                *("worker.Worker", name, "-c", "1", "-m", "1g", "--host", "127.0.0.1", self.url)
            )
        wait_until(
            lambda: self._said().count("Registering worker") == 2,
            timeout_s=START_TIMEOUT_S,
            what="two workers",
        )
        return self

    def __exit__(self, *_: object) -> None:
        for child in reversed(self._started):
            kill_group(child)

    def executors(self) -> list[int]:
        """The process ids of the executors that the workers run."""
        return [
            pid
            for worker in self._started[1:]
            for pid in descendants(worker.pid, "CoarseGrainedExecutorBackend")
        ]

    def _start(self, name: str, log: str, *arguments: str) -> None:
        command = [str(self.bin / "spark-class"), f"org.apache.spark.deploy.{name}"]
        command += ["--webui-port", "0", *arguments]
        self._started.append(spawn(command, self.directory / log, **self.environment))

    def _said(self) -> str:
        return (self.directory / "master").read_text()

    def _address(self) -> str:
        mark = "Starting Spark master at "
        found = [line for line in self._said().splitlines() if mark in line]
        return found[0].partition(mark)[2].strip() if found else ""
