"""Libraries of Python: each writes the records of a topic to another, and is killed meanwhile.

A second half of the records is written while the program is dead. What it had not finished is done
by the next one, so that no record is missing; where the library promises it, none is there twice.
"""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compat_tests.clients import produce_confluent
from compat_tests.conftest import Names
from compat_tests.reading import LOOK_S, read_all
from kwire.testing.waiting import WaitTimeout, wait_until
from tests.support.topics import create_topics

PROGRAMS = Path(__file__).parent / "programs"
HALF = 200
TASKS = 20
"""Fewer of Celery's: each is committed and flushed by itself."""
PATIENCE_S = 60


class Running:
    """A program in its environment, which can be killed and started again."""

    def __init__(self, python: Path, name: str, directory: Path, *arguments: str) -> None:
        self._command = [str(python), str(PROGRAMS / f"in_{name}.py"), *arguments]
        self._directory = directory
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        with (self._directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self._command, cwd=self._directory, env=_clean(), stdout=log, stderr=log
            )

    def kill(self) -> None:
        """End it as a crash would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def is_alive(self) -> bool:
        """Whether it runs; AssertionError with its log if it has ended by itself."""
        assert self._process is not None
        ended = self._process.poll()
        assert ended is None, f"it ended with {ended}\n{self.log()}"
        return True

    def log(self) -> str:
        """The end of what it has said."""
        return (self._directory / "log").read_text(errors="replace")[-5000:]

    def run(self, *arguments: str) -> None:
        """Run it to its end with more arguments."""
        subprocess.run(
            [*self._command, *arguments], cwd=self._directory, env=_clean(), timeout=60, check=True
        )


def _clean() -> dict[str, str]:
    """An environment without what points to the tests' own packages."""
    return {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}


@contextmanager
def running(program: Running) -> Iterator[Running]:
    """A program that runs during the ``with`` block."""
    program.start()
    try:
        yield program
    finally:
        program.kill()


def wait_for(bootstrap: str, topic: str, program: Running, count: int) -> list[str]:
    """The values of a topic, when it has at least so many different ones."""
    found: list[str] = []

    def is_there() -> bool:
        program.is_alive()
        found[:] = [value for _, _, value in read_all(bootstrap, topic, 1)]
        return len(set(found)) >= count

    try:
        wait_until(is_there, timeout_s=PATIENCE_S, what=f"{count} records", interval_s=LOOK_S)
    except WaitTimeout as error:
        raise AssertionError(f"{len(set(found))} of {count} records\n{program.log()}") from error
    return found


def write(bootstrap: str, topic: str, values: list[str]) -> None:
    """Write values."""
    produce_confluent(bootstrap, topic, [(None, value.encode(), []) for value in values])


@pytest.mark.parametrize(
    ("library", "is_exactly_once"),
    [
        pytest.param(
            "quixstreams",
            True,
            marks=pytest.mark.runs(
                "Quix Streams",
                "quixstreams",
                "exactly once; its consumers use the classic protocol",
            ),
        ),
        pytest.param(
            "faust",
            False,
            marks=pytest.mark.runs("Faust", "faust-streaming", "at least once"),
        ),
        pytest.param(
            "bytewax",
            False,
            marks=pytest.mark.runs(
                "Bytewax", "bytewax", "at least once; offsets are in its own files"
            ),
        ),
        pytest.param(
            "faststream_confluent",
            False,
            marks=pytest.mark.runs("FastStream on confluent-kafka", "faststream", "at least once"),
        ),
        pytest.param(
            "faststream_kafka",
            False,
            marks=pytest.mark.runs("FastStream on aiokafka", "faststream", "at least once"),
        ),
    ],
)
def test_a_program_that_is_killed(
    library: str,
    is_exactly_once: bool,
    python: Path,
    bootstrap: str,
    names: Names,
    tmp_path: Path,
) -> None:
    """The one that follows does the rest."""
    source, target, name = names.topic("source"), names.topic("target"), names.group(library)
    create_topics(bootstrap, source, target)
    values = [f"value-{number:05}" for number in range(2 * HALF)]
    write(bootstrap, source, values[:HALF])
    program = Running(python, library, tmp_path, bootstrap, source, target, name)
    with running(program):
        wait_for(bootstrap, target, program, 1)
    write(bootstrap, source, values[HALF:])
    with running(program):
        found = wait_for(bootstrap, target, program, len(values))
    expected = [value.upper() for value in values]
    assert sorted(found if is_exactly_once else set(found)) == expected


@pytest.mark.runs(
    "Celery on Kombu's `confluentkafka`",
    "celery",
    "a worker that ends loses what it has fetched: Kombu commits what it has read",
)
def test_tasks_of_celery(python: Path, bootstrap: str, names: Names, tmp_path: Path) -> None:
    """A worker is killed when nothing waits in it; the next one does the tasks that follow."""
    queue, target, name = names.topic("queue"), names.topic("target"), names.group("celery")
    create_topics(bootstrap, queue, target)
    program = Running(python, "celery", tmp_path, bootstrap, queue, target, name)
    values = [f"task-{number:05}" for number in range(TASKS)]
    program.run(*values[: TASKS // 2])
    with running(program):
        wait_for(bootstrap, target, program, TASKS // 2)
    program.run(*values[TASKS // 2 :])
    with running(program):
        found = wait_for(bootstrap, target, program, TASKS)
    assert sorted(set(found)) == [value.upper() for value in values]
