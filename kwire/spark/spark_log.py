"""The log file of Spark's process: what Spark, Ivy, Java and Python workers print.

A command prints its own lines alone, and names this file in one of them.

Rules:

- The file is ``logs/COMMAND.log`` in the checkpoint's directory if that is one of this machine, or
  else ``kwire/PIPELINE/COMMAND.log`` in the user's directory for state.
- Each start of Spark begins the file anew; the one before it becomes ``COMMAND.log.old``.
- There is no file if another one has started Spark: spark-submit, or a program with a session.
"""

import os
from collections import deque
from pathlib import Path
from typing import BinaryIO

from kwire.spark.settings import PipelineSettings
from kwire.spark.storage import LocalStorage, storage_at

LAST_LINES = 20
"""How many lines a command shows when Spark has failed."""


class SparkLog:
    """The file for one start of Spark."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.is_begun = False
        """Whether Spark was started with this file."""

    def begin(self) -> BinaryIO:
        """A new file, which the caller closes; OSError."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        if self.path.exists():
            self.path.replace(self.path.with_name(f"{self.path.name}.old"))
        self.is_begun = True
        return os.fdopen(os.open(self.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY, 0o600), "ab")

    def last_lines(self) -> list[str]:
        """The last lines of the file; none if Spark wasn't started with it, or printed nothing."""
        if not self.is_begun:
            return []
        try:
            with self.path.open(encoding="utf-8", errors="replace") as file:
                return [line.rstrip("\n") for line in deque(file, LAST_LINES)]
        except OSError:
            return []

    def lines_of_failure(self) -> list[str]:
        """What a command that has failed prints: the last lines, after one that names the file."""
        lines = self.last_lines()
        return [f"kwire: the end of {self.path}:", *(f"  {one}" for one in lines)] if lines else []


def log_of(settings: PipelineSettings, command: str) -> SparkLog:
    """The log file of a command for a pipeline."""
    try:
        storage = storage_at(settings.checkpoint)
    except ValueError:  # it is elsewhere
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        return SparkLog(Path(state) / "kwire" / settings.name / f"{command}.log")
    assert isinstance(storage, LocalStorage)
    return SparkLog(Path(storage.url(f"logs/{command}.log").removeprefix("file://")))
