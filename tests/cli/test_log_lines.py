"""The lines of the log look as Python's own would."""

import io
import logging
import re
import sys

from kwire.cli.log_lines import (
    MAX_MESSAGE_CHARACTERS,
    MOST_PER_SECOND,
    LineFormatter,
    Sparing,
)

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
    """An exception is written as Python writes it, but for the indentation."""
    made = record(1_700_000_000.0, "broken")
    try:
        raise ValueError("why")
    except ValueError:
        made.exc_info = sys.exc_info()
    first, *more = PYTHONS.format(made).splitlines()
    assert LineFormatter().format(made).splitlines() == [first, *(f"    {line}" for line in more)]


FORGED = "x\n2026-01-31 12:00:00,123 ERROR kwire.log: the disk is lost\r\x1b[2J\u2028\x85y"


def test_no_client_can_forge_a_line() -> None:
    """Control characters of a name or of an exception's text are escaped or stay indented."""
    (line,) = LineFormatter().format(record(1_700_000_000.0, "group %s", FORGED)).splitlines()
    assert line.isprintable()
    made = record(1_700_000_000.0, "broken")
    try:
        raise ValueError(FORGED)
    except ValueError:
        made.exc_info = sys.exc_info()
    _, *more = LineFormatter().format(made).split("\n")
    assert more
    assert all(line.startswith("    ") and line.isprintable() for line in more)


def test_a_long_message_is_cut() -> None:
    """A group id of 32 KB takes a thousand characters of the log."""
    line = LineFormatter().format(record(1_700_000_000.0, "group %s", "g" * 32_000))
    assert len(line) < MAX_MESSAGE_CHARACTERS + 150
    assert line.endswith("… (31006 more characters)")


def test_a_kind_of_message_is_written_so_many_times_a_second() -> None:
    """The others are counted, other kinds are not held back, and the next second is a new one."""
    sparing = Sparing()
    flood = [sparing.filter(record(1_700_000_000.5, "group %s", n)) for n in range(1000)]
    assert sum(flood) == MOST_PER_SECOND
    assert sparing.filter(record(1_700_000_000.6, "something else"))
    after = record(1_700_000_001.0, "group %s", "g")
    assert sparing.filter(after)
    assert after.getMessage() == "group g (800 messages before this were left out)"


def test_a_logger_writes_such_lines() -> None:
    """Through a handler, the end of the line included."""
    out = io.StringIO()
    handler = logging.StreamHandler(out)
    handler.setFormatter(LineFormatter())
    handler.handle(record(1_700_000_000.0, "hello"))
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,000 INFO kwire.x: hello\n", out.getvalue())
