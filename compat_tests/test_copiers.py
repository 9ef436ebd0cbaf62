"""Kafka's TransactionalMessageCopier, as in Kafka's own system test: killed, restarted, counted.

Each copier reads one partition, or is a member of a group, and commits its output together with its
offsets. Whatever happens to them, each record is in the output once, and in order.
"""

import random
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from compat_tests.clients import produce_confluent
from compat_tests.conftest import Names
from compat_tests.java_server import HostedTool
from compat_tests.java_tools import started_tool
from compat_tests.reading import LOOK_S, read_all
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
PARTITIONS = 2
PER_PARTITION = 1500
PATIENCE_S = 120


class Copiers:
    """The copiers of a test; whoever is missing is started."""

    def __init__(self, bootstrap: str, source: str, target: str, group: str, *extra: str) -> None:
        self.options = ["--broker-list", bootstrap, "--input-topic", source]
        self.options += ["--output-topic", target, "--consumer-group", group, *extra]
        self.options += ["--transaction-size", "60", "--transaction-timeout", "10000"]
        self.group = group
        self.are_killed = False
        """Whether those that start now die by force; such a one is a process of its own."""
        self.running: dict[int, subprocess.Popen[str] | HostedTool] = {}

    def start(self, number: int) -> None:
        """Start the copier of a partition."""
        mine = ["--input-partition", str(number), "--transactional-id", f"{self.group}-{number}"]
        self.running[number] = started_tool(COPIER, *self.options, *mine, is_killed=self.are_killed)

    def wait_for_loops(self, number: int, count: int) -> None:
        """Wait until a copier has gone round some times, or has come to its end."""
        out = self.running[number].stdout
        assert out is not None
        for _ in range(count):
            out.readline()

    def replace_ended(self) -> None:
        """Start those again that are done: a member without partitions thinks that it is."""
        for number, process in list(self.running.items()):
            if process.poll() is not None:
                self.kill(number)
                self.start(number)

    def kill(self, number: int) -> None:
        """End one as a crash would."""
        self.running[number].kill()
        self._forget(number)

    def stop(self, number: int) -> None:
        """End one in order: it closes its clients."""
        self.running[number].terminate()
        self._forget(number)

    def _forget(self, number: int) -> None:
        process = self.running.pop(number)
        process.wait(PATIENCE_S)
        assert process.stdout is not None
        process.stdout.close()


@contextmanager
def copying(copiers: Copiers) -> Iterator[Copiers]:
    """Copiers that run during the ``with`` block."""
    try:
        for number in range(PARTITIONS):
            copiers.start(number)
        yield copiers
    finally:
        for number in list(copiers.running):
            copiers.kill(number)


@pytest.mark.parametrize("mode", ["assigned", "group"])
def test_copiers_that_are_killed(bootstrap: str, names: Names, mode: str) -> None:
    """They abort by chance and die by force; a read_committed consumer counts."""
    source, target, group = names.topic("source"), names.topic("target"), names.group("copiers")
    create_topics(bootstrap, source, partitions=PARTITIONS)
    create_topics(bootstrap, target, partitions=PARTITIONS)
    expected = [f"{number:05d}" for number in range(PARTITIONS * PER_PARTITION)]
    rows = [(value.encode(), value.encode(), []) for value in expected]
    produce_confluent(bootstrap, source, rows, partitioner="murmur2")
    extra = ["--enable-random-aborts", "--use-group-metadata"]
    extra += ["--group-mode"] if mode == "group" else []
    dice = random.Random(1)
    first = Copiers(bootstrap, source, target, group, *extra)
    first.are_killed = True
    with copying(first) as copiers:
        for goes_on in (True, False):
            copiers.are_killed = goes_on
            for number in range(PARTITIONS):
                copiers.wait_for_loops(number, dice.randrange(2, 8))
                copiers.kill(number)
                copiers.start(number)

        def is_done() -> bool:
            copiers.replace_ended()
            return len(list(read_all(bootstrap, target, PARTITIONS))) >= len(expected)

        wait_until(
            is_done, timeout_s=PATIENCE_S, what="every record to be copied", interval_s=LOOK_S
        )
    found = list(read_all(bootstrap, target, PARTITIONS))
    assert sorted(value for _, _, value in found) == expected
    for partition in range(PARTITIONS):
        mine = [value for index, _, value in found if index == partition]
        original = [
            v for index, _, v in read_all(bootstrap, source, PARTITIONS) if index == partition
        ]
        assert mine == original
