"""The log of ``kwire serve``: one line on standard error for each message.

Format: ``2026-01-31 12:00:00,123 INFO kwire.runtime: what happened``, in local time, a traceback on
lines of its own; Python's own form of the time.

A rebalance is told in three lines while its next request is under way, so a line has to be cheap:
nobody is asked for what it doesn't show (the caller, the thread), and the time is put into words
once a second. A line that is logged is written at once: a crash loses none.
"""

import logging
import time
from typing import TextIO


class LineFormatter(logging.Formatter):
    """Puts a message into a line."""

    def __init__(self) -> None:
        super().__init__()
        self._second = -1
        self._second_text = ""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        second = int(record.created)
        if second != self._second:
            self._second_text = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
            self._second = second
        line = (
            f"{self._second_text},{int(record.msecs):03d} {record.levelname} {record.name}: "
            f"{record.getMessage()}"
        )
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        if record.stack_info:
            line += "\n" + self.formatStack(record.stack_info)
        return line


def begin(stream: TextIO, *, verbose: bool) -> None:
    """Have what is logged from now on written to ``stream``."""
    logging._srcfile = None  # Python's documented way to look for no callers
    logging.logThreads = False
    logging.logProcesses = False
    logging.logMultiprocessing = False
    handler = logging.StreamHandler(stream)
    handler.setFormatter(LineFormatter())
    logging.basicConfig(level=logging.DEBUG if verbose else logging.INFO, handlers=[handler])
