"""Programs of Java that run beside a test, with settings in a file, and are killed at its end."""

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


def written(path: Path, settings: Mapping[str, object]) -> str:
    """The name of a file of properties with these settings."""
    lines = (f"{name}={value}\n" for name, value in settings.items())
    path.write_text("".join(lines), encoding="utf-8")
    return str(path)


class Program:
    """A program that runs and logs into a file."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("ab") as file:
            self.process = subprocess.Popen(command, stdout=file, stderr=file)

    def has_to_run(self) -> None:
        """AssertionError with the end of its log if it has ended by itself."""
        ended = self.process.poll()
        log = self._log.read_text(encoding="utf-8", errors="replace")
        assert ended is None, f"it ended with {ended}\n{log[-5000:]}"


@contextmanager
def running(command: Sequence[str], log: Path) -> Iterator[Program]:
    """A program that is killed, as a crash would, at the end of the ``with`` block."""
    program = Program(command, log)
    try:
        yield program
    finally:
        program.process.kill()
        program.process.wait()
