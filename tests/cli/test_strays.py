"""``kwire strays``: what was put aside is named, and nothing else goes when a person says so."""

from pathlib import Path

import pytest

from kwire.cli import main
from tests.support.in_process import running_server

HEXADECIMAL = "0123456789abcdef" * 2


@pytest.fixture
def strays(tmp_path: Path) -> list[Path]:
    """Two strays in a data directory, beside a log and what only looks like a stray."""
    for name in ("t-0", "t-0.abc-stray", f"t-1.{HEXADECIMAL}-future", "x-stray"):
        (tmp_path / name).mkdir()
    (tmp_path / f"file-0.{HEXADECIMAL}-stray").touch()
    found = [tmp_path / f"{log}.{HEXADECIMAL}-stray" for log in ("gone-0", "gone-with.dots-12")]
    for path in found:
        path.mkdir()
        (path / "00000000000000000000.log").write_bytes(bytes(1_500_000))
    (tmp_path / f"link-0.{HEXADECIMAL}-stray").symlink_to(tmp_path / "t-0")
    return found


def test_they_are_listed(strays: list[Path], tmp_path: Path, capsys) -> None:
    """Each with the log it held and its size."""
    assert main(["strays", "list", "--data-dir", str(tmp_path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{strays[0]} (gone-0, 1.5 MB)",
        f"{strays[1]} (gone-with.dots-12, 1.5 MB)",
    ]
    assert all(path.exists() for path in strays)


def test_one_is_removed(strays: list[Path], tmp_path: Path, capsys) -> None:
    """The one that is named."""
    before = sorted(tmp_path.iterdir())
    assert main(["strays", "remove", "--data-dir", str(tmp_path), strays[1].name]) == 0
    assert capsys.readouterr().out == f"removed {strays[1]} (gone-with.dots-12, 1.5 MB)\n"
    assert sorted(tmp_path.iterdir()) == [path for path in before if path != strays[1]]


def test_all_are_removed(strays: list[Path], tmp_path: Path) -> None:
    """And nothing else."""
    before = sorted(tmp_path.iterdir())
    assert main(["strays", "remove", "--all", "--data-dir", str(tmp_path)]) == 0
    assert sorted(tmp_path.iterdir()) == [path for path in before if path not in strays]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ([], "name the strays to remove, or give --all"),
        (["--all", "x"], "name the strays to remove, or give --all"),
        (["t-0"], "has no stray t-0"),
        (["../elsewhere"], "has no stray ../elsewhere"),
        (["--data-dir", "b", "x"], "NAME belongs to one data directory"),
    ],
)
def test_nothing_is_removed_by_mistake(strays, tmp_path: Path, capsys, given, told) -> None:
    """A log isn't a stray, whatever name is given."""
    before = sorted(tmp_path.iterdir())
    is_unknown = "has no stray" in told  # anything else is a wrong command line
    assert main(["strays", "remove", "--data-dir", str(tmp_path), *given]) == (
        1 if is_unknown else 2
    )
    assert told in capsys.readouterr().err
    assert sorted(tmp_path.iterdir()) == before


def test_one_that_stays_is_not_said_to_be_removed(strays, tmp_path: Path, capsys, monkeypatch):
    """Its files belong to somebody else, or their disk is read-only."""
    monkeypatch.setattr("shutil.rmtree", lambda path, *, ignore_errors: None)
    assert main(["strays", "remove", "--all", "--data-dir", str(tmp_path)]) == 1
    said = capsys.readouterr()
    assert f"cannot remove {strays[0]}" in said.err
    assert said.out == ""


def test_a_directory_that_is_not_there(tmp_path: Path, capsys) -> None:
    """One line that names it."""
    nowhere = str(tmp_path / "nowhere")
    assert main(["strays", "list", "--data-dir", nowhere]) == 1
    assert main(["strays", "remove", "--all", "--data-dir", nowhere]) == 1
    assert capsys.readouterr().err.count(nowhere) == 2


async def test_while_a_broker_serves_the_directory(tmp_path: Path, caplog) -> None:
    """It says at the start what there is, and goes on when the strays go."""
    async with running_server(tmp_path):
        pass
    for log in ("gone-0", "gone-1"):
        stray = tmp_path / f"{log}.{HEXADECIMAL}-stray"
        stray.mkdir()
        (stray / "00000000000000000000.log").write_bytes(bytes(1_500_000))
    async with running_server(tmp_path) as running:
        assert f"{tmp_path} has 2 stray log(s), 3.0 MB, of deleted topics" in caplog.text
        assert main(["strays", "remove", "--all", "--data-dir", str(tmp_path)]) == 0
        await running.topic("t2")
        assert await running.end_offset("t2") == 0
    caplog.clear()
    async with running_server(tmp_path):
        assert "stray" not in caplog.text
