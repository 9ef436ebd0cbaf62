"""The brokers that are measured: each is a column of the table.

``kwire`` is the compiled build, whose hot modules mypyc has compiled. ``pure`` is kwire run from
its sources in pure Python. ``kafka`` is Apache Kafka. Without a C compiler there is no ``kwire``,
and ``pure`` is compared with ``kafka``.
"""

from collections.abc import Callable
from compileall import compile_dir
from pathlib import Path
from typing import Protocol

from kwire.testing.process import BrokerProcess

ROOT = Path(__file__).parent.parent
KWIRE, PURE, KAFKA = "kwire", "pure", "kafka"
SETTINGS = {"log.segment.delete.delay.ms": "100"}
"""Settings of every broker: segments that a load has deleted are gone before the next load."""
KAFKAS_SETTINGS = SETTINGS | {"log.initial.task.delay.ms": "100"}
"""By default Apache Kafka starts to delete segments half a minute after its start."""

COMPILED_MARK = "__mypyc"
"""A part of the name of every file with compiled modules."""
TITLES = {KWIRE: "kwire", PURE: "kwire, pure Python", KAFKA: "Apache Kafka 4.3.1"}


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


def kwire_maker(package_parent: Path | None) -> Maker:
    """A maker for kwire, compiled from the directory with its modules, or from its sources.

    The bytecode is compiled beforehand, as ``pip install`` does.
    """
    parent = package_parent or ROOT
    compile_dir(parent / "kwire", quiet=1)
    return lambda directory: BrokerProcess(directory, SETTINGS, package_parent=parent)


def is_compiled(pid: int) -> bool:
    """Whether a broker's process has loaded compiled modules."""
    return COMPILED_MARK in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")


def subjects(names: list[str]) -> list[str]:
    """The kwire brokers among these names; bars are about the first one."""
    return [name for name in names if name != KAFKA]


def titles(names: list[str]) -> dict[str, str]:
    """The names of brokers in tables and charts."""
    return {name: TITLES[name] for name in names}
