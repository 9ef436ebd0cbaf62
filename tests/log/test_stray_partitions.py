"""What is put aside keeps as much of its name as a file system allows."""

from pathlib import Path

from kwire.log.stray_partitions import STRAY_SUFFIX, path_with_suffix

TOKEN = "0123456789abcdef" * 2


def test_the_longest_name_leaves_room_for_its_suffix(tmp_path: Path) -> None:
    """A topic's name has up to 249 characters, and a file's up to 255."""
    log = tmp_path / ("t" * 249 + "-12")
    target = path_with_suffix(log, TOKEN, STRAY_SUFFIX)
    target.mkdir()
    assert len(target.name) == 255
    assert target.name.startswith("t" * 200)
    assert target.name.endswith(f".{TOKEN}{STRAY_SUFFIX}")


def test_a_short_name_is_kept(tmp_path: Path) -> None:
    """Its log is still known."""
    assert path_with_suffix(tmp_path / "t-0", TOKEN, STRAY_SUFFIX).name == f"t-0.{TOKEN}-stray"
