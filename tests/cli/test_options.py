"""Values of options: durations, times, partitions; tables and fields."""

import argparse
import io
import json
import sys
from datetime import datetime

import pytest

from kwire.cli import tables
from kwire.cli.options import count, name_value, partition_numbers, positive, seconds, time_ms
from kwire.cli.output import fail


@pytest.mark.parametrize(
    ("text", "found"), [("5", 5), ("0.5", 0.5), ("500ms", 0.5), ("2m", 120), ("1h", 3600)]
)
def test_durations(text: str, found: float) -> None:
    """With and without a unit."""
    assert seconds(text) == found


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (seconds, "0"),
        (seconds, "-1"),
        (seconds, "1 week"),
        (seconds, "inf"),
        (seconds, "nan"),
        (count, "-1"),
        (count, "²"),
        (positive, "0"),
        (partition_numbers, "1-"),
        (partition_numbers, "a"),
        (partition_numbers, "3-1"),
        (partition_numbers, "0-99999999999"),
        (name_value, "retention.ms"),
        (name_value, "=1"),
    ],
)
def test_a_value_that_is_none_is_refused(parse, text: str) -> None:
    """By the parser, with exit code 2."""
    with pytest.raises(argparse.ArgumentTypeError, match=r"^[^\n]+$"):
        parse(text)


def test_partitions() -> None:
    """Numbers and ranges."""
    assert partition_numbers("0,2-4,7") == [0, 2, 3, 4, 7]


def test_times() -> None:
    """Milliseconds, durations before now, ISO 8601 with and without a zone."""
    assert time_ms("@5", 0) == 5
    assert time_ms("1h", 3_600_001) == time_ms("-1h", 3_600_001) == 1
    assert time_ms("1970-01-01T00:00:01Z", 0) == 1000
    local = datetime(2026, 1, 31, 12).astimezone()
    assert time_ms("2026-01-31T12:00", 0) == local.timestamp() * 1000
    out_of_range = ("@-1", "@99999999999999999999", "99999999999999h", "9" * 400 + "h")
    for text in ("yesterday", "@x", "", "1960-01-01", *out_of_range):
        with pytest.raises(ValueError, match=r"."):
            time_ms(text, 0)


ROWS = [{"name": "a\x1b", "n": 5, "more": None}, {"name": "bb", "n": 10, "more": [1, 2]}]
COLUMNS = {"name": "NAME", "n": "N", "more": "MORE"}


def test_a_table_in_a_pipe_is_aligned_and_plain(capsys) -> None:
    """Numbers to the right, nothing for a terminal to obey."""
    tables.show(ROWS, COLUMNS, as_json=False)
    assert capsys.readouterr().out == "NAME    N  MORE\na\\x1b   5  -\nbb     10  1,2\n"
    tables.show(ROWS, COLUMNS, as_json=True)
    assert json.loads(capsys.readouterr().out) == ROWS
    tables.show([], COLUMNS, as_json=False, nothing="none yet")
    assert capsys.readouterr() == ("", "none yet\n")
    tables.show([], COLUMNS, as_json=True, nothing="none yet")
    assert capsys.readouterr() == ("[]\n", "")


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_table_at_a_terminal_is_drawn_by_rich_or_plain_without_it(monkeypatch) -> None:
    """The words are the same."""
    monkeypatch.setattr(sys, "stdout", _Terminal())
    monkeypatch.setenv("TERM", "dumb")
    tables.show(ROWS, COLUMNS, as_json=False)
    drawn = sys.stdout.getvalue()
    monkeypatch.setattr(sys, "stdout", _Terminal())
    monkeypatch.setitem(sys.modules, "rich.console", None)
    tables.show(ROWS, COLUMNS, as_json=False)
    assert drawn.split() == sys.stdout.getvalue().split()


def test_json_and_lists_have_nothing_for_a_terminal_to_obey(capsys) -> None:
    """C1 control characters count too: terminals obey U+009B as an escape sequence."""
    tables.show([{"ids": ["\x1b[2J", "b"]}], {"ids": "IDS"}, as_json=False)
    assert capsys.readouterr().out == "IDS\n\\x1b[2J,b\n"
    tables.show_json({"id": "a\x9b2J\u202e"})
    out = capsys.readouterr().out
    assert out.replace("\n", "").isprintable()
    assert json.loads(out) == {"id": "a\x9b2J\u202e"}


def test_a_failure_is_one_line_without_control_characters(capsys) -> None:
    """The message may quote what a broker or a file says."""
    assert fail("bad name \x1b[2J\nx") == 1
    assert capsys.readouterr().err == "kwire: bad name \\x1b[2J\\nx\n"
