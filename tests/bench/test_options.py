"""What can't be measured, or shouldn't be published, is said before anything is started."""

import pytest

from bench import __main__ as bench
from bench import growth


def refused(parse, arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What is said of a command line that is refused."""
    with pytest.raises(SystemExit) as ended:
        parse(arguments.split())
    assert ended.value.code == 2
    return capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    "arguments", ["--rounds 0", "--slow-rounds 0", "--seconds 0", "--quick --seconds -1"]
)
def test_something_is_measured(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    """At least one round, for some time."""
    assert "at least 1" in refused(bench.options_of, arguments, capsys)


@pytest.mark.parametrize("arguments", ["--publish --quick", "--publish --only fetch"])
def test_a_part_isn_t_published(arguments: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It would replace the table of all rows."""
    assert "--publish needs the whole table" in refused(bench.options_of, arguments, capsys)


def test_profiles_of_some_rows_are_published() -> None:
    """They lie beside the others."""
    assert bench.options_of(["--profile", "--publish", "--only", "fetch"]).publish


def test_a_curve_that_isn_t_there(capsys: pytest.CaptureFixture[str]) -> None:
    """Its name is said, and which ones there are."""
    said = refused(growth.options_of, "--only nosuch", capsys)
    assert "nosuch" in said
    assert "record bytes" in said
    said = refused(growth.options_of, "--publish --most 10", capsys)
    assert "--most" in said
