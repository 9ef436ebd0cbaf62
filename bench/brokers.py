"""The brokers that are measured, kwire and Apache Kafka: each is a column of the table."""

from collections.abc import Callable
from compileall import compile_dir
from pathlib import Path
from typing import Protocol

from kwire.testing.process import BrokerProcess

ROOT = Path(__file__).parent.parent
KWIRE, KAFKA = "kwire", "kafka"
SETTINGS = {"log.segment.delete.delay.ms": "100"}
"""Settings of every broker: segments that a load has deleted are gone before the next load."""
KAFKAS_SETTINGS = SETTINGS | {"log.initial.task.delay.ms": "100"}
"""By default Apache Kafka starts to delete segments half a minute after its start."""

TITLES = {KWIRE: "kwire", KAFKA: "Apache Kafka"}


class MeasuredBroker(Protocol):
    """The calls that the bench needs of a broker in another process."""

    bootstrap: str
    data_dir: Path

    @property
    def pid(self) -> int:
        """The broker's process id."""

    def start(self) -> object:
        """Start the broker and wait until it answers."""

    def stop(self) -> int:
        """Stop the broker."""

    def kill(self) -> None:
        """End the broker with SIGKILL."""


Maker = Callable[[Path], MeasuredBroker]
"""Creates a broker that isn't started yet, with a directory for its data."""


def new_kafka(directory: Path) -> MeasuredBroker:
    """Apache Kafka with a formatted directory; needs Java."""
    from bench.apache_kafka import MeasuredKafka

    return MeasuredKafka(directory, KAFKAS_SETTINGS)


def kwire_maker() -> Maker:
    """A maker for kwire, whose bytecode is written beforehand, as ``pip install`` does."""
    compile_dir(ROOT / "kwire", quiet=1)
    return lambda directory: BrokerProcess(directory, SETTINGS)


def titles(names: list[str]) -> dict[str, str]:
    """The names of brokers in tables and charts."""
    return {name: TITLES[name] for name in names}
