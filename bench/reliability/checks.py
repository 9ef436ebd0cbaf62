"""What has to be true after all failures: records, replicas, and what was lost or doubled.

Rules: a check raises AssertionError and says where; it changes nothing.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.cluster.kills import TOPIC, Load, new_reader
from bench.reliability.clusters import Trial
from compat_tests.crash_clients import read_all
from kwire.testing.waiting import wait_until


class Outcome(NamedTuple):
    """How many records were acknowledged, how many of them are lost, how many records are there
    twice, and how many errors the producers have told their application.
    """

    acknowledged: int
    lost: int
    doubled: int
    errors: int


def outcome(trial: Trial, load: Load) -> Outcome:
    """Read back what this load has written, and compare it with what was acknowledged."""
    reader = new_reader(trial.bootstrap)
    acknowledged = lost = doubled = errors = 0
    for writer in load.writers:
        rows = read_all(reader, TOPIC, writer.partition, writer.next_offset)
        writer.next_offset = rows[-1][0] + 1 if rows else writer.next_offset
        numbers = [number for _, number in rows]
        told = writer.acknowledged
        found = dict(rows)
        acknowledged += len(told)
        lost += sum(found.get(offset) != number for offset, number in told.items())
        doubled += len(numbers) - len(set(numbers))
        errors += len(writer.errors)
        assert numbers == sorted(numbers), f"{TOPIC}-{writer.partition} isn't in order"
    reader.close()
    return Outcome(acknowledged, lost, doubled, errors)


def log_bytes(directory: Path) -> bytes:
    """The records of a partition, all segments one after the other.

    Segments may begin at other offsets on other brokers. Apache Kafka makes the file of the active
    segment longer than its records where it is told to: zeros at the end don't count.
    """
    segments = sorted(directory.glob("*.log"))
    return b"".join(segment.read_bytes() for segment in segments).rstrip(b"\0")


def check_equal(trial: Trial, partitions: Sequence[int]) -> None:
    """All replicas hold the same bytes, as soon as followers have the last records."""
    for partition in partitions:

        def is_equal(partition: int = partition) -> bool:
            places = trial.directories.values()
            held = {log_bytes(place / f"{TOPIC}-{partition}") for place in places}
            return len(held) == 1

        wait_until(is_equal, timeout_s=30, what=f"equal logs of {TOPIC}-{partition}")
