"""Test files are rewritten once when several processes run them, not once in each process.

pytest rewrites the asserts of a test file when it imports it, and keeps the result beside the file.
Each process of pytest-xdist imports every test file, all in the same order: in a fresh checkout
each would rewrite nearly all of them at the same moment, about 7 seconds of work three times over.
So each process begins at a place of its own, and passes over what another one has made meanwhile.
Files that have changed since are left to pytest.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from _pytest.assertion.rewrite import (
    PYC_TAIL,
    _read_pyc,
    _rewrite_test,
    _write_pyc,
    assertstate_key,
    get_cache_dir,
)

# Private attributes: pytest has no public way to rewrite a file before its turn.


def rewrite_a_share(config: pytest.Config) -> None:
    """Rewrite test files that nobody has rewritten, if this process is one of several."""
    of_worker = getattr(config, "workerinput", None)
    state = config.stash.get(assertstate_key, None)
    if of_worker is None or state is None or sys.dont_write_bytecode:
        return
    files = _test_files(config.invocation_params.dir, config.args)
    number, count = int(of_worker["workerid"].removeprefix("gw")), of_worker["workercount"]
    start = len(files) * number // count
    for path in [*files[start:], *files[:start]]:
        kept = rewritten(path)
        if not kept.exists():
            kept.parent.mkdir(exist_ok=True)
            write(path, config, state)


def rewritten(path: Path) -> Path:
    """Where pytest keeps a file as it has rewritten it."""
    directory: Path = get_cache_dir(path)
    return directory / f"{path.stem}{PYC_TAIL}"


def is_taken(path: Path) -> bool:
    """Whether pytest takes a file as it was rewritten, instead of rewriting it."""
    return _read_pyc(path, rewritten(path)) is not None


def write(path: Path, config: pytest.Config, state: Any) -> None:
    """Rewrite a file, and keep it."""
    source_hash, code = _rewrite_test(path, config)
    _write_pyc(state, code, source_hash, rewritten(path))


def _test_files(directory: Path, chosen: Sequence[str]) -> list[Path]:
    """The test files among what a command names."""
    paths = [directory / name.split("::")[0] for name in chosen]
    found = {file for path in paths for file in (path, *path.rglob("test_*.py"))}
    return sorted(file for file in found if file.is_file())
