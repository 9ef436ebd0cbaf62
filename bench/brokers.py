"""The brokers that are measured: each is a column of the table."""

from pathlib import Path
from typing import Protocol

from kwire.testing.process import BrokerProcess


class MeasuredBroker(Protocol):
    """What the bench needs of a broker in a process of its own."""

    bootstrap: str
    data_dir: Path

    @property
    def pid(self) -> int:
        """Its process id."""

    def start(self) -> object:
        """Start it and wait until it answers."""

    def stop(self) -> int:
        """Stop it."""


def new_broker(name: str, directory: Path) -> MeasuredBroker:
    """A broker that is not started yet: ``kwire`` or ``kafka`` (formatted; Java is needed)."""
    if name == "kwire":
        return BrokerProcess(directory)
    from bench.apache_kafka import MeasuredKafka

    return MeasuredKafka(directory)


def titles(names: list[str]) -> dict[str, str]:
    """What brokers are called in tables and charts."""
    return {name: {"kafka": "Apache Kafka 4.3.1"}.get(name, name) for name in names}
