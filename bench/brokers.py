"""The brokers that are measured: each is a column of the table.

``kwire`` is the compiled build, whose hot modules mypyc has compiled; ``pure`` is kwire from its
sources, pure Python; ``kafka`` is Apache Kafka. Where nothing can be compiled there is no
``kwire``, and ``pure`` is compared.
"""

from collections.abc import Callable
from compileall import compile_dir
from pathlib import Path
from typing import Protocol

from kwire.testing.process import BrokerProcess

ROOT = Path(__file__).parent.parent
KWIRE, PURE, KAFKA = "kwire", "pure", "kafka"
SETTINGS = {"log.segment.delete.delay.ms": "100"}
"""Every broker's: what a load has deleted is gone before the next one begins."""
KAFKAS_SETTINGS = SETTINGS | {"log.initial.task.delay.ms": "100"}
"""Apache Kafka would begin to delete half a minute after its start."""

COMPILED_MARK = "__mypyc"
"""What the files of compiled modules have in their names."""
TITLES = {KWIRE: "kwire", PURE: "kwire, pure Python", KAFKA: "Apache Kafka 4.3.1"}


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


Maker = Callable[[Path], MeasuredBroker]
"""Gives a broker that is not started yet, with a directory for its data."""


def new_kafka(directory: Path) -> MeasuredBroker:
    """Apache Kafka, formatted; Java is needed."""
    from bench.apache_kafka import MeasuredKafka

    return MeasuredKafka(directory, KAFKAS_SETTINGS)


def kwire_maker(package_parent: Path | None) -> Maker:
    """How kwire is made: from the directory with its compiled modules, or from its sources.

    Its bytecode is there before it starts, as it is after ``pip install``.
    """
    parent = package_parent or ROOT
    compile_dir(parent / "kwire", quiet=1)
    return lambda directory: BrokerProcess(directory, SETTINGS, package_parent=parent)


def is_compiled(pid: int) -> bool:
    """Whether a broker's process has loaded compiled modules."""
    return COMPILED_MARK in Path(f"/proc/{pid}/maps").read_text(encoding="utf-8")


def subjects(names: list[str]) -> list[str]:
    """Every kwire among brokers; the first one is what bars are about."""
    return [name for name in names if name != KAFKA]


def titles(names: list[str]) -> dict[str, str]:
    """What brokers are called in tables and charts."""
    return {name: TITLES[name] for name in names}
