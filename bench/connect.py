"""Kafka Connect's file sink on the topic of ``bench.pipelines``: how fast it is, standalone.

A worker of Apache Kafka in standalone mode runs FileStreamSinkConnector with JsonConverter:
every value is parsed as JSON and written into one file, a line for each. The time and the processor
time count from the first line in the file, so the start of Java and the join of the group are not
in them.
"""

import subprocess
import time
from pathlib import Path
from typing import NamedTuple

from bench.usage import cpu_seconds
from compat_tests.java_tools import connect_command
from kwire.testing.waiting import wait_until
from tests.support.ports import free_port

MAIN = "org.apache.kafka.connect.cli.ConnectStandalone"
TIMEOUT_S = 600
POLL_S = 0.05


class Written(NamedTuple):
    """Lines that were written after the first ones, in how many seconds."""

    lines: int
    seconds: float
    cpu_s: float


class _Lines:
    """Counts the lines of a file that grows."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0
        self.count = 0

    def look(self) -> int:
        """How many there are by now."""
        if self._path.exists():
            with self._path.open("rb") as file:
                file.seek(self._position)
                while chunk := file.read(1 << 20):
                    self._position += len(chunk)
                    self.count += chunk.count(b"\n")
        return self.count


def run_connect(bootstrap: str, topic: str, directory: Path, records: int) -> Written:
    """Let a worker write the whole topic; RuntimeError if it ends, MissingTool without Java."""
    directory.mkdir()
    target = directory / "lines"
    files = _properties(bootstrap, topic, directory, target)
    log = directory / "connect.log"
    lines = _Lines(target)
    with log.open("wb") as output:
        process = subprocess.Popen(connect_command(MAIN, *files), stdout=output, stderr=output)

    def has(count: int) -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"Kafka Connect ended: {log.read_text()[-2000:]}")
        return lines.look() >= count

    try:
        wait_until(lambda: has(1), timeout_s=TIMEOUT_S, what="the first line", interval_s=POLL_S)
        before, started_s, cpu_s = lines.count, time.perf_counter(), cpu_seconds(process.pid)
        wait_until(lambda: has(records), timeout_s=TIMEOUT_S, what="all lines", interval_s=POLL_S)
        seconds, cpu_s = time.perf_counter() - started_s, cpu_seconds(process.pid) - cpu_s
    finally:
        process.kill()
        process.wait()
    if lines.count != records:
        raise RuntimeError(f"Kafka Connect has written {lines.count:,} lines, not {records:,}")
    return Written(records - before, seconds, cpu_s)


def _properties(bootstrap: str, topic: str, directory: Path, target: Path) -> list[str]:
    """The files of the worker and of the connector."""
    worker = {
        "bootstrap.servers": bootstrap,
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "false",
        "offset.storage.file.filename": str(directory / "offsets"),
        "consumer.auto.offset.reset": "earliest",
        "consumer.isolation.level": "read_committed",
        "listeners": f"http://127.0.0.1:{free_port()}",
        "plugin.discovery": "service_load",
    }
    connector = {
        "name": f"file-{directory.name}",
        "connector.class": "org.apache.kafka.connect.file.FileStreamSinkConnector",
        "tasks.max": "1",
        "topics": topic,
        "file": str(target),
    }
    found = []
    for name, values in (("worker", worker), ("connector", connector)):
        path = directory / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in values.items()))
        found.append(str(path))
    return found
