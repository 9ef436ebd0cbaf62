"""Instances of a Kafka Streams application with ``group.protocol=streams`` (KIP-1071) come and go.

They run in one JVM (StreamsFleet.java), and count the values of each key, exactly once. Each task
has a standby task, which the group's setting asks for.
"""

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compat_tests.clients import produce_confluent
from compat_tests.conftest import Names
from compat_tests.java_tools import fleet_command
from compat_tests.raw_client import RawClient
from compat_tests.reading import LOOK_S, count_of, read_rows
from compat_tests.test_stock_suites import alter
from compat_tests.test_streams_heartbeats import AT_ONCE, GROUP_RESOURCE
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

PARTITIONS = 4
TASKS = [f"0_{partition}" for partition in range(PARTITIONS)]
KEYS = [f"key-{number}" for number in range(20)]
PATIENCE_S = 120
STANDBYS = {"streams.num.standby.replicas": "1"}
SETTINGS = (
    "group.protocol=streams",
    "processing.guarantee=exactly_once_v2",
    "num.stream.threads=1",
    "commit.interval.ms=100",
    "auto.offset.reset=earliest",
)


class Fleet:
    """The program with its instances."""

    def __init__(
        self, bootstrap: str, group: str, topics: tuple[str, str], path: Path, replicas: int = 1
    ) -> None:
        self.bootstrap, self.group = bootstrap, group
        self.source, self.target = topics
        self.written = 0
        settings = (*SETTINGS, f"replication.factor={replicas}")
        command = fleet_command(bootstrap, group, *topics, str(path), *settings)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def say(self, *words: str) -> str:
        """Give a command; the answer."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(" ".join(words) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def tasks(self, name: str) -> tuple[list[str], list[str]]:
        """The active and the standby tasks of an instance."""
        active, standby = self.say("tasks", name).split("|")
        return active.split(), standby.split()

    def wait_until_shared(self, *names: str) -> None:
        """Wait until these instances have all tasks, and standby tasks if there are several."""
        alone = len(names) == 1

        def is_shared() -> bool:
            has = [self.tasks(name) for name in names]
            active = sorted(task for mine, _ in has for task in mine)
            standby = sorted(task for _, mine in has for task in mine)
            is_even = all(len(mine) == PARTITIONS // len(names) for mine, _ in has)
            return active == TASKS and standby == ([] if alone else TASKS) and is_even

        wait_until(
            is_shared,
            timeout_s=PATIENCE_S,
            what=f"{names} to share the tasks",
            interval_s=LOOK_S,
        )

    def write(self) -> None:
        """Write a value of each key, while the instances may be on their way."""
        produce_confluent(self.bootstrap, self.source, [(key.encode(), b"", []) for key in KEYS])
        self.written += 1

    def wait_until_counted(self) -> None:
        """Wait until all that was written is counted."""
        wanted = self.written * len(KEYS)
        wait_until(
            lambda: count_of(self.bootstrap, self.target, PARTITIONS) >= wanted,
            timeout_s=PATIENCE_S,
            what=f"{wanted} counts",
            interval_s=LOOK_S,
        )

    def check_counts(self) -> None:
        """Each count of each key came out once, in order."""
        found: dict[str, list[int]] = {}
        for key, value in read_rows(self.bootstrap, self.target, PARTITIONS):
            found.setdefault(key.decode(), []).append(int(value))
        assert set(found) == set(KEYS)
        for key, counts in found.items():
            assert counts == list(range(1, self.written + 1)), key


@contextmanager
def new_fleet(bootstrap: str, names: Names, path: Path, replicas: int = 1) -> Iterator[Fleet]:
    """A fleet without instances, whose group has standby tasks; all its topics have replicas."""
    source, target, group = names.topic("source"), names.topic("target"), names.group("fleet")
    for topic in (source, target):
        create_topics(bootstrap, topic, partitions=PARTITIONS, replicas=replicas)
    with RawClient(bootstrap) as raw:
        assert alter(raw, GROUP_RESOURCE, group, **AT_ONCE, **STANDBYS) == "NONE"
    fleet = Fleet(bootstrap, group, (source, target), path, replicas)
    try:
        yield fleet
    finally:
        fleet.process.kill()
        fleet.process.communicate()


@pytest.fixture
def fleet(bootstrap: str, names: Names, tmp_path: Path) -> Iterator[Fleet]:
    """A fleet on one broker."""
    with new_fleet(bootstrap, names, tmp_path) as fleet:
        yield fleet


@pytest.mark.waits(40)
def test_instances_come_and_go_one_after_the_other(fleet: Fleet) -> None:
    """A second one, a rolling bounce, and one alone again: each count comes out once, in order."""
    fleet.write()
    fleet.say("start", "a")
    fleet.wait_until_shared("a")
    fleet.say("start", "b")
    fleet.write()
    fleet.wait_until_shared("a", "b")
    fleet.wait_until_counted()
    everybody_knows_who_has_which_key(fleet)
    for name in ("a", "b"):
        fleet.say("stop", name)
        fleet.write()
        fleet.say("start", name)
        fleet.wait_until_shared("a", "b")
    fleet.say("stop", "b")
    fleet.wait_until_shared("a")
    fleet.write()
    fleet.wait_until_counted()
    fleet.check_counts()


def everybody_knows_who_has_which_key(fleet: Fleet) -> None:
    """By the endpoints that heartbeats tell; the count is in both stores."""
    for key in KEYS[:4]:
        wait_until(
            lambda key=key: (  # type: ignore[misc]
                {fleet.say("who", name, key) for name in ("a", "b")} in ({"a|b"}, {"b|a"})
            ),
            timeout_s=PATIENCE_S,
            what=f"both to know who has {key}",
            interval_s=LOOK_S,
        )
        for name in ("a", "b"):
            wait_until(
                lambda key=key, name=name: (  # type: ignore[misc]
                    fleet.say("get", name, key) == str(fleet.written)
                ),
                timeout_s=PATIENCE_S,
                what=f"the count of {key} at {name}",
                interval_s=LOOK_S,
            )
