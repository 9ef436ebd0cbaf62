"""The bar of ``verify``, ``compact``, ``expire`` and ``replay``, and what reports to it."""

import io
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from rich.console import Console

from kwire.spark.commands import work_bar
from kwire.spark.commands.work_bar import WorkBar
from kwire.spark.segments import progress_bar
from kwire.spark.settings import SinkSettings
from kwire.spark.upkeep.files import Upkeep
from kwire.testing.waiting import wait_until


class Terminal(io.StringIO):
    """A screen that keeps what is drawn."""

    def isatty(self) -> bool:
        """What rich and the bar ask."""
        return True


def test_what_is_done_of_all_and_the_time_left() -> None:
    """Anew for each kind of work; without a known amount the bar only moves."""
    screen, clock = Terminal(), [0.0]
    console = Console(file=screen, width=100, get_time=lambda: clock[0])
    with WorkBar("verify", is_on=True, console=console) as bar:
        bar.show("starting Spark", 0, 0)
        for seconds, done in ((0.0, 0), (10.0, 1000), (20.0, 2000)):
            clock[0] = seconds
            bar.show("reading", done, 4000)
    drawn = screen.getvalue()
    assert "verify: reading" in drawn
    assert "2,000 of 4,000" in drawn


def test_nothing_is_drawn_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A script reads the table alone."""
    with WorkBar("verify", is_on=True) as bar:
        bar.show("reading", 1, 2)
        bar.watch(cast(Any, None))
    assert capsys.readouterr() == ("", "")


def test_the_bar_of_a_backfill(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is there for as long as the block runs, at a terminal."""
    monkeypatch.setattr(work_bar, "POLL_S", 0.001)
    state = SimpleNamespace(numCompletedTasks=30, numTasks=80)
    tracker = SimpleNamespace(getActiveStageIds=lambda: [1], getStageInfo=lambda one: state)
    spark = SimpleNamespace(sparkContext=SimpleNamespace(statusTracker=lambda: tracker))
    screen = Terminal()
    monkeypatch.setattr("sys.stderr", screen)
    with progress_bar(cast(Any, spark), "orders"):
        wait_until(lambda: "30 of 80" in screen.getvalue(), timeout_s=30, what="the tasks")
    assert "orders: Spark's tasks" in screen.getvalue()


def test_the_tasks_of_spark_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the stages that run; a stage that has just ended has no state any more."""
    monkeypatch.setattr(work_bar, "POLL_S", 0.001)
    stages = {1: SimpleNamespace(numCompletedTasks=3, numTasks=8), 2: None}
    tracker = SimpleNamespace(getActiveStageIds=lambda: [1, 2], getStageInfo=stages.get)
    context = SimpleNamespace(statusTracker=lambda: tracker)
    screen = Terminal()
    with WorkBar("replay", is_on=True, console=Console(file=screen, width=100)) as bar:
        bar.watch(cast(Any, SimpleNamespace(sparkContext=context)))
        wait_until(lambda: "3 of 8" in screen.getvalue(), timeout_s=30, what="the tasks")
    assert "replay: Spark's tasks" in screen.getvalue()


def test_compaction_reports_the_files_that_are_merged(tmp_path: Path) -> None:
    """How many of all that it merges."""
    partition = tmp_path / "table/topic=t/partition=0"
    partition.mkdir(parents=True)
    for number in range(6):
        (partition / f"{number:020}-{number + 1:020}.json").write_text('{"n": 1}\n')
    seen: list[tuple[str, int, int]] = []
    upkeep = Upkeep(SinkSettings("json", str(tmp_path / "table")))
    upkeep.compact(None, 20, lambda *one: seen.append(one))
    assert seen == [("merging files", 0, 4), ("merging files", 2, 4)]
