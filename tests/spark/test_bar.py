"""The progress bar of a pipeline: rows, rate and time left, by a clock that the test has."""

import io
import sys

import pytest
from rich.console import Console

from kwire.spark.commands import bar as module
from kwire.spark.commands.bar import Bar
from kwire.spark.progress import Status


class Terminal(io.StringIO):
    """A screen that keeps what is drawn."""

    def isatty(self) -> bool:
        """What rich and the bar ask."""
        return True


class Clock:
    """Seconds, as the test says."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def monotonic(self) -> float:
        """The time of now."""
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The clock of the bar."""
    found = Clock()
    monkeypatch.setattr(module, "time", found)
    return found


def status(first: int, read: int, end: int) -> Status:
    """A pipeline that began at an offset of partition 0 and has read some."""
    place = "orders-0"
    return Status(records=read, batches=1, next={place: first + read}, ends={place: end})


def test_rows_rate_and_time_left(clock: Clock) -> None:
    """Of what is left since the start of this run; what others print stands above the bar."""
    screen = Terminal()
    console = Console(file=screen, width=100, get_time=clock.monotonic)
    with Bar("orders", is_on=True, console=console) as bar:
        bar.show(Status(ends={"orders-0": 9000}))
        for seconds, read in ((0, 0), (10, 1000), (20, 2000)):
            clock.now_s = seconds
            console.print("a line of the program")
            screen.truncate(0)
            bar.show(status(5000, read, 9000))
        drawn = screen.getvalue()
        bar.finish(status(5000, 4000, 9000))
    assert "orders" in drawn
    assert " 50% · 2,000 rows · 100/s" in drawn
    assert "0:00:20" in drawn


def test_the_summary(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    """One line, also without a terminal; nothing where it is off."""
    for is_on in (True, False):
        clock.now_s = 0.0
        with Bar("orders", is_on=is_on) as bar:
            clock.now_s = 4.0
            bar.show(status(0, 2000, 2500))
            bar.finish(status(0, 2000, 2500))
        said = "orders: 2,000 records in 1 batches, 500/s, 500 left\n" if is_on else ""
        assert capsys.readouterr() == ("", said)


def test_a_bar_is_drawn_on_stderr_of_a_terminal(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is gone in the end, and the summary stays."""
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm")
    with Bar("orders", is_on=True) as bar:
        bar.show(status(0, 0, 100))
        bar.show(status(0, 50, 100))
        bar.finish(status(0, 100, 100))
    text = screen.getvalue()
    assert "50%" in text
    erase_line = "\x1b[2K"
    assert text.rindex(erase_line) < text.rindex("orders: 100 records in 1 batches")
