"""Collects the log lines of each test broker, and keeps them out of the log of the test.

Rules:

- A broker in a thread logs to Python's loggers, which the whole process shares. A context variable,
  which its tasks and threads inherit, says which broker has logged a line.
- While a broker runs, its lines go to its own log and nowhere else, like those of another process.
  Lines of kwire that no test broker has logged go on to the handlers of the program.
- For that, the logger ``kwire`` gets a parent that pytest can't find. pytest adds handlers to all
  loggers that it finds, even if they don't propagate.
- The log keeps the last ``LINES`` lines.
"""

import logging
import threading
from collections import deque
from contextvars import ContextVar

LINES = 2000
LOGGER = "kwire"

_OWNER: ContextVar["BrokerLog | None"] = ContextVar("kwire_test_broker", default=None)


class BrokerLog:
    """The log of one test broker."""

    def __init__(self, level: int = logging.INFO) -> None:
        self.level = level
        self._lines: deque[str] = deque(maxlen=LINES)

    def own_this_context(self) -> None:
        """Assign log lines of this thread, and of its tasks and threads, to this broker."""
        _OWNER.set(self)

    def add(self, line: str) -> None:
        """Add a line."""
        self._lines.append(line)

    def text(self) -> str:
        """The lines, oldest first."""
        return "\n".join(list(self._lines))


class _Collector(logging.Handler):
    """Gives each line to the log of the broker that has logged it."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        self._logs: list[BrokerLog] = []
        self._lock_of_logs = threading.Lock()
        self._sink = logging.Logger(f"{LOGGER} test brokers")
        self._sink.addHandler(self)
        self._parent: logging.Logger | None = None
        self._level_before = logging.NOTSET
        self._least_before = logging.WARNING
        self._level_set = logging.NOTSET

    def begin(self, log: BrokerLog) -> None:
        """Collect the lines of a broker that is about to start."""
        logger = logging.getLogger(LOGGER)
        with self._lock_of_logs:
            if not self._logs:
                self._level_before = logger.level
                self._least_before = logger.getEffectiveLevel()
                self._parent, logger.parent = logger.parent, self._sink
            self._logs.append(log)
            self._set_level(logger)

    def end(self, log: BrokerLog) -> None:
        """Stop collecting the lines of a broker."""
        logger = logging.getLogger(LOGGER)
        with self._lock_of_logs:
            self._logs.remove(log)
            if self._logs:
                self._set_level(logger)
                return
            logger.parent = self._parent
            if logger.level == self._level_set:
                logger.setLevel(self._level_before)

    def _set_level(self, logger: logging.Logger) -> None:
        self._level_set = min([self._least_before, *(log.level for log in self._logs)])
        logger.setLevel(self._level_set)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a line, or pass it on if it belongs to no test broker."""
        owner = _OWNER.get()
        if owner is not None:
            if record.levelno >= owner.level:
                owner.add(self.format(record))
            return
        logger = logging.getLogger(LOGGER)
        least = self._least_before if logger.level == self._level_set else logger.level
        if record.levelno >= least and self._parent is not None:
            self._parent.handle(record)


COLLECTOR = _Collector()
