"""The log lines of ``kwire serve``: one line for each message, on standard error or in a file.

Text: ``2026-01-31 12:00:00.123+01:00 INFO kwire.runtime: what happened``: local time with its
offset from UTC (RFC 3339). The lines of a traceback follow, each indented.

JSON (``--log-format json``): ``{"time":…,"level":…,"logger":…,"message":…}``, with ``exception``
where there is a traceback, and with the ``fields`` of a record that has some (the audit log).

With ``--workers``, the lines of a worker have ``worker 2`` after the level, or ``"worker":2``.

Rules:

- Only a message starts at the left edge. Group ids, client ids and reasons are text from clients:
  control characters in a message are escaped, so that no client can forge a line.
- A message, and each text among the ``fields``, is cut after ``MAX_MESSAGE_CHARACTERS``. Of a
  longer traceback the beginning and the end stay, because its last lines say what happened:
  ``MAX_TRACEBACK_CHARACTERS`` in all, and ``MAX_TRACEBACK_LINES`` in a text log.
- Messages with the same format text are written at most ``MOST_PER_SECOND`` times a second. The
  others are counted, and the first message after that second gives their number. Clients therefore
  can't fill the disk. The lines of the audit log have limits of their own
  (``kwire.security.audit_limits``), which count for each client.
- A line has to be cheap, because a rebalance writes three lines while other requests wait. So
  Python's logging doesn't look up the caller and the thread, which no line shows, and the time is
  formatted once a second.
- A line is written at once, so that a crash loses none.
"""

import logging
import threading
import time

MAX_MESSAGE_CHARACTERS = 1000
MAX_TRACEBACK_CHARACTERS = 20_000
MAX_TRACEBACK_LINES = 400
MOST_PER_SECOND = 200

AUTHORIZER, LOGINS = "kwire.authorizer", "kwire.logins"
"""The loggers of the audit log, whose messages aren't counted here."""

_ESCAPES = {
    code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
    for code in (*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x2029)
} | {ord("\n"): "\\n", ord("\r"): "\\r", ord("\t"): "\\t"}


def cut(text: str) -> str:
    """``text``, cut to the length limit of a message."""
    if len(text) <= MAX_MESSAGE_CHARACTERS:
        return text
    left_out = len(text) - MAX_MESSAGE_CHARACTERS
    return f"{text[:MAX_MESSAGE_CHARACTERS]}… ({left_out} more characters)"


def one_line(text: str) -> str:
    """``text`` with control characters escaped, and cut to the length limit of a message."""
    text = cut(text)
    return text if text.isprintable() else text.translate(_ESCAPES)


def middle_cut(text: str) -> str:
    """A traceback, without its middle if it is longer than ``MAX_TRACEBACK_CHARACTERS``."""
    left_out = len(text) - MAX_TRACEBACK_CHARACTERS
    if left_out <= 0:
        return text
    half = MAX_TRACEBACK_CHARACTERS // 2
    return f"{text[:half]}\n… ({left_out} more characters)\n{text[-half:]}"


def indented(text: str) -> str:
    """The lines of a traceback, each indented, so that none looks like the start of a message."""
    lines = middle_cut(text).splitlines()
    left_out = len(lines) - MAX_TRACEBACK_LINES
    if left_out > 0:
        half = MAX_TRACEBACK_LINES // 2
        lines = [*lines[:half], f"… ({left_out} more lines)", *lines[-half:]]
    return "\n".join(f"    {one_line(line)}" for line in lines)


class _Timed(logging.Formatter):
    """Formats the time of a message; ``worker`` is the number of this worker process, if any."""

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self.worker = worker
        self._second = -1
        self._second_text = self._offset = ""

    def time_of(self, record: logging.LogRecord) -> str:
        """Local time with its offset from UTC."""
        second = int(record.created)
        if second != self._second:
            at = time.localtime(second)
            self._second_text = time.strftime("%Y-%m-%d %H:%M:%S", at)
            offset = time.strftime("%z", at)
            self._offset = f"{offset[:3]}:{offset[3:]}"
            self._second = second
        return f"{self._second_text}.{int(record.msecs):03d}{self._offset}"


class JsonFormatter(_Timed):
    """Formats a message as a JSON object in one line."""

    def __init__(self, worker: int | None = None) -> None:
        super().__init__(worker)
        from json import dumps

        self._dumps = dumps

    def format(self, record: logging.LogRecord) -> str:
        """The object, without the newline at its end."""
        parts: dict[str, str | int] = {
            "time": self.time_of(record),
            "level": record.levelname,
            "logger": record.name,
            "message": cut(record.getMessage()),
        }
        if self.worker is not None:
            parts["worker"] = self.worker
        for name, value in getattr(record, "fields", {}).items():
            parts[name] = cut(value) if isinstance(value, str) else value
        if record.exc_info:
            parts["exception"] = middle_cut(self.formatException(record.exc_info))
        return self._dumps(parts)


class LineFormatter(_Timed):
    """Formats a message as a line."""

    def __init__(self, worker: int | None = None) -> None:
        super().__init__(worker)
        self._source = "" if worker is None else f"worker {worker} "

    def format(self, record: logging.LogRecord) -> str:
        """The line, without the newline at its end."""
        line = (
            f"{self.time_of(record)} {record.levelname} {self._source}{record.name}: "
            f"{one_line(record.getMessage())}"
        )
        if record.exc_info:
            line += "\n" + indented(self.formatException(record.exc_info))
        if record.stack_info:
            line += "\n" + indented(self.formatStack(record.stack_info))
        return line


class Sparing(logging.Filter):
    """Limits messages of the same format text per second, and counts those left out."""

    def __init__(self) -> None:
        super().__init__()
        self._second = -1
        self._seen: dict[object, int] = {}
        self._lock = threading.Lock()  # logging calls filters outside of the handler's lock

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write the message. The first of a second says how many were left out."""
        if record.name in (AUTHORIZER, LOGINS):
            return True
        second = int(record.created)
        with self._lock:
            if second != self._second:
                self._second = second
                left_out = sum(max(0, count - MOST_PER_SECOND) for count in self._seen.values())
                self._seen.clear()
                if left_out:
                    record.msg = f"{record.msg} ({left_out} messages before this were left out)"
            count = self._seen[record.msg] = self._seen.get(record.msg, 0) + 1
        return count <= MOST_PER_SECOND


def start_log(
    handler: logging.Handler, *, verbose: bool, as_json: bool = False, worker: int | None = None
) -> None:
    """Write all log messages to ``handler`` from now on; ``worker`` is the number in its lines."""
    logging._srcfile = None  # Python's documented way to skip looking up the caller
    logging.logThreads = False
    logging.logProcesses = False
    logging.logMultiprocessing = False
    handler.addFilter(Sparing())
    handler.setFormatter(JsonFormatter(worker) if as_json else LineFormatter(worker))
    level = logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(level=level, handlers=[handler], force=worker is not None)


def begin_audit(file: logging.Handler, like: logging.Handler) -> None:
    """Write the audit log to ``file`` and nowhere else; its lines look as those of ``like``."""
    file.addFilter(Sparing())
    file.setFormatter(like.formatter)
    for name in (AUTHORIZER, LOGINS):
        audit = logging.getLogger(name)
        for earlier in audit.handlers[:]:  # those of the supervisor, in a worker
            audit.removeHandler(earlier)
        audit.addHandler(file)
        audit.propagate = False
