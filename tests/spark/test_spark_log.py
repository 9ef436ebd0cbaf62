"""Where the messages of Spark's process go, and what of them a command shows."""

from pathlib import Path

import pytest

from kwire.spark.batch import OffsetRange
from kwire.spark.commands.reading import fail_with
from kwire.spark.query import error_line, told_batch
from kwire.spark.settings import PipelineSettings, SinkSettings, Source
from kwire.spark.spark_log import LAST_LINES, log_of


def settings(checkpoint: str) -> PipelineSettings:
    """A pipeline with this checkpoint."""
    return PipelineSettings("shop", Source("h:1", ("t",)), SinkSettings("parquet"), checkpoint)


def test_the_log_is_with_the_checkpoint_if_that_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise with the user's state."""
    assert log_of(settings(f"file://{tmp_path}/c"), "run").path == tmp_path / "c/logs/run.log"
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    remote = settings("s3a://bucket/c")
    assert log_of(remote, "verify").path == tmp_path / "kwire/shop/verify.log"


def test_a_failure_shows_the_end_of_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of this start, not of an earlier one; control characters can't reach the terminal."""
    log = log_of(settings(str(tmp_path)), "run")
    with log.begin() as file:
        file.write(b"".join(b"line %d\x1b\n" % number for number in range(100)))
    again = log_of(settings(str(tmp_path)), "run")
    assert fail_with(again, "no") == 1
    assert capsys.readouterr().err == "kwire: no\n"
    assert fail_with(log, "no") == 1
    first, title, *lines = capsys.readouterr().err.splitlines()
    assert (first, title) == ("kwire: no", f"kwire: the end of {log.path}:")
    assert lines == [f"  line {number}\\x1b" for number in range(100 - LAST_LINES, 100)]
    with again.begin() as file:
        file.write(b"")
    assert again.last_lines() == []
    assert (tmp_path / "logs/run.log.old").read_text().startswith("line 0")
    assert (again.path.stat().st_mode & 0o077) == 0


def test_the_end_of_the_log_has_no_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Spark and Java print the settings that they were given."""
    log = log_of(settings(str(tmp_path)), "run")
    with log.begin() as file:
        file.write(b"jdbc:x://ann:hidden@h:1/db\nFAILED WITH password=hidden; the end\n")
    assert fail_with(log, "no") == 1
    printed = capsys.readouterr().err
    assert "hidden" not in printed
    assert printed.splitlines()[-1] == "  FAILED WITH password=***; the end"


def test_an_error_of_a_batch_says_which_offsets_it_was_reading() -> None:
    """And that they are read again; a few of them."""
    ranges = [OffsetRange("orders", number, 5, 10) for number in range(7)]
    error = ValueError("no\nmore")
    error.add_note(told_batch(3, ranges))
    places = ", ".join(f"orders-{number} offsets 5 to 9" for number in range(5))
    assert error_line(error) == (
        f"ValueError: no; in batch 3 ({places} and 2 more), with which the next run begins again"
    )
