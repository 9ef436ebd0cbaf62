"""The lines of the log look as Python's own would."""

import io
import logging
import re
import sys

from kwire.cli.log_lines import LineFormatter

PYTHONS = logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s")


def record(created: float, message: str, *args: object) -> logging.LogRecord:
    """What the formatter is given."""
    made = logging.LogRecord("kwire.x", logging.INFO, "", 0, message, args, None)
    made.created, made.msecs = created, (created - int(created)) * 1000
    return made


def test_a_line_is_that_of_pythons_formatter() -> None:
    """Second after second, with and without arguments."""
    lines = LineFormatter()
    for created in (1_700_000_000.0, 1_700_000_000.9994, 1_700_000_001.25, 1_700_000_000.5):
        for made in (record(created, "a %s", "b"), record(created, "100%")):
            assert lines.format(made) == PYTHONS.format(made)


def test_a_traceback_follows_on_lines_of_its_own() -> None:
    """An exception is told like Python does it."""
    made = record(1_700_000_000.0, "broken")
    try:
        raise ValueError("why")
    except ValueError:
        made.exc_info = sys.exc_info()
    assert LineFormatter().format(made) == PYTHONS.format(made)


def test_a_logger_writes_such_lines() -> None:
    """Through a handler, the end of the line included."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(LineFormatter())
    handler.handle(record(1_700_000_000.0, "hello"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,000 INFO kwire.x: hello\n", out.getvalue())
