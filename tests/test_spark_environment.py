"""Spark's tests leave nothing behind, wherever Spark puts it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from spark_tests.environment import (
    HERE,
    ROOT,
    VENVS,
    prepare_venv,
    pytest_arguments,
    quick_workers,
    run_in_scratch,
)

LITTER = """
import os, sys, tempfile
from pathlib import Path
Path("artifacts").mkdir()
print(Path(tempfile.mkdtemp()), file=open(sys.argv[1], "w"))
assert f"-Djava.io.tmpdir={tempfile.gettempdir()} " in os.environ["SPARK_SUBMIT_OPTS"]
assert Path(os.environ["SPARK_LOCAL_DIRS"]) == Path.cwd()
sys.exit(int(sys.argv[2]))
"""


@pytest.mark.parametrize("code", [0, 3])
def test_what_spark_leaves_is_removed_unless_the_run_failed(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], code: int
) -> None:
    """Directories where it runs and temporary ones; after a failure they are named."""
    left = tmp_path / "left"
    assert run_in_scratch([sys.executable, "-c", LITTER, str(left), str(code)], {}) == code
    scratch = Path(left.read_text().strip()).parent
    assert scratch.exists() is bool(code)
    assert (str(scratch) in capfd.readouterr().out) is bool(code)
    if code:
        assert (scratch / "artifacts").exists()
        for folder in (*scratch.iterdir(), scratch):
            folder.rmdir()


def test_what_was_interrupted_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C, as often as one likes: the directory may be in memory, which would fill."""

    def interrupted(*_: object, cwd: Path, **__: object) -> None:
        (cwd / "artifacts").mkdir()
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "run", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_in_scratch(["none"], {}, tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_lane_runs_its_tests_and_whatever_is_named() -> None:
    """The newer lane only those that depend on Spark's version, unless paths are given."""
    assert pytest_arguments("stock", ["-x"]) == [str(HERE), "-m", "not long", "-x"]
    assert pytest_arguments("new", []) == [str(HERE), "-m", "both_lanes and not long"]
    batch = str(HERE / "test_batch.py")
    assert pytest_arguments("new", [f"{batch}::test_a", "-x"]) == [
        "-m",
        "not long",
        f"{batch}::test_a",
        "-x",
    ]


def test_an_environment_is_renewed_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a change of the lock file, also if it is a link to another checkout's."""
    there = tmp_path / "there"
    (there / "bin").mkdir(parents=True)
    python = there / "bin" / "python"
    python.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments\n')
    python.chmod(0o755)
    (there / ".lock").write_text("an older one")
    here = tmp_path / "here"
    here.symlink_to(there)
    monkeypatch.setitem(VENVS, "stock", here)
    assert prepare_venv("stock") == here / "bin" / "python"
    lock = HERE / "requirements-stock.txt"
    assert (tmp_path / "arguments").read_text().endswith(f"--require-hashes -r {lock}\n")
    assert (there / ".lock").read_bytes() == lock.read_bytes()


def test_workers_find_no_archives(tmp_path: Path) -> None:
    """Spark puts them before all else; a start would compile what is in them."""
    (tmp_path / "pyspark.zip").touch()
    environment = os.environ | quick_workers(Path(sys.executable))
    found = subprocess.run(
        [environment["PYSPARK_PYTHON"], "-c", "import sys; print(*sys.path, sep='\\n')"],
        env=environment | {"PYTHONPATH": f"{tmp_path / 'pyspark.zip'}:{tmp_path}"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    assert str(ROOT) in found
    assert not any(one.startswith(str(tmp_path)) for one in found)
