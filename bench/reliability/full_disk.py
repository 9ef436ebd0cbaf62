"""P13: the disk of one broker fills up, and has room again later.

The broker's directory is on a small file system in memory, which takes root on Linux.
"""

import errno
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from confluent_kafka import ElectionType, KafkaException
from confluent_kafka.admin import AdminClient

from bench.reliability.clusters import REPLICAS, WAIT_S, Trial, kafka, kwire
from bench.reliability.scenarios import PARTITIONS, Scenarios, Seen
from bench.rows.common import NotHere
from compat_tests.clients import QUIET
from kwire.testing.waiting import wait_until

SIZE_MB = 128
FULL_S = 20.0
FILLER = "filler"


@contextmanager
def small_disk(directory: Path) -> Iterator[None]:
    """Give the last broker of a cluster in this directory a small disk; NotHere without root."""
    disk, place = directory / "disk", directory / str(REPLICAS)
    disk.mkdir(parents=True)
    options = ("-t", "tmpfs", "-o", f"size={SIZE_MB}m", "tmpfs", str(disk))
    run = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    if run.returncode:
        raise NotHere(f"no small file system: {run.stderr.strip()}")
    try:
        (disk / place.name).mkdir()
        place.symlink_to(disk / place.name)
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(disk)], check=True)


@contextmanager
def kwire_with_small_disk(directory: Path) -> Iterator[Trial]:
    """Three kwires, the last one on a small disk."""
    with small_disk(directory), kwire(directory) as trial:
        yield trial


@contextmanager
def kafka_with_small_disk(directory: Path) -> Iterator[Trial]:
    """Three Apache Kafkas, the last one on a small disk."""
    with small_disk(directory), kafka(directory) as trial:
        yield trial


def fill(disk: Path) -> None:
    """Write a file until there is no room."""
    with (disk / FILLER).open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise


def lead(trial: Trial, node_id: int, scenarios: Scenarios) -> list[int]:
    """Have a broker lead what it is the first replica of; these partitions."""
    admin = AdminClient({"bootstrap.servers": trial.bootstrap}, logger=QUIET)

    def leads() -> list[int]:
        with suppress(KafkaException):  # it is the leader already, or isn't in sync yet
            admin.elect_leaders(ElectionType.PREFERRED, None).result(WAIT_S)
        return scenarios.led_by(node_id)

    return wait_until(leads, timeout_s=WAIT_S, what=f"broker {node_id} to lead")


def disk_full(scenarios: Scenarios) -> Iterator[Seen]:
    """P13: no room for twenty seconds, on a broker that leads and follows."""
    trial = scenarios.trial
    victim = max(trial.nodes)
    own = lead(trial, victim, scenarios)
    rest = [index for index in range(PARTITIONS) if index not in own]
    disk = trial.directories[victim].resolve()
    while not disk.is_mount():
        disk = disk.parent
    began_s = time.monotonic()
    fill(disk)
    time.sleep(FULL_S)
    (disk / FILLER).unlink()
    room_s = time.monotonic()
    if not trial.is_running(victim):
        trial.start(victim)
    scenarios.load.wait(list(range(PARTITIONS)), room_s)
    yield scenarios.pause("P13", "pause of the partitions that it leads", own, began_s)
    yield scenarios.pause("P13", "pause of the partitions that it follows", rest, began_s)
    scenarios.whole()
    yield Seen("P13", "from room on the disk until it is in sync", time.monotonic() - room_s)
