"""``python -m tests.support.newest_python``: the path of the newest CPython of this machine.

It looks for ``python3.N`` on PATH and for the versions that pyenv has installed. Of equal versions
the one that runs this counts, then those on PATH.
"""

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

NAME = re.compile(r"python3\.\d+")
VERSION = re.compile(r"3\.\d+\.\d+")
"""Of pyenv's: neither an alpha, nor a build without the interpreter's lock, nor PyPy."""
OLDEST = (3, 11)
"""The first Python that kwire is for."""
ASK = (
    "import sys, ensurepip, venv;"
    "print(sys.implementation.name, sys.version_info.releaselevel, *sys.version_info[:3])"
)
"""It ends with an error where no environment can be made (Debian's without python3-venv)."""


def candidates(environment: Mapping[str, str]) -> Iterator[Path]:
    """The programs that may be a CPython: the one that runs this, those on PATH, then pyenv's."""
    yield Path(sys.executable)
    for directory in map(Path, os.get_exec_path(environment)):
        if directory.is_dir():
            yield from (file for file in sorted(directory.iterdir()) if NAME.fullmatch(file.name))
    root = Path(environment.get("PYENV_ROOT", Path.home() / ".pyenv"))
    for directory in sorted(root.glob("versions/*")):
        if VERSION.fullmatch(directory.name):
            yield directory / "bin" / "python3"


def version_of(program: Path) -> tuple[int, ...]:
    """The version of a released CPython; () for another one, or what can't make an environment."""
    try:
        run = subprocess.run([program, "-c", ASK], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ()
    name, level, *numbers = run.stdout.split()
    return tuple(map(int, numbers)) if (name, level) == ("cpython", "final") else ()


def each_minor(programs: Iterable[Path]) -> dict[str, Path]:
    """The newest program of each version like 3.12, from 3.11 on; the first one of equals."""
    found: dict[tuple[int, ...], tuple[tuple[int, ...], Path]] = {}
    for program in programs:
        version = version_of(program)
        if version >= OLDEST and version > found.get(version[:2], ((),))[0]:
            found[version[:2]] = (version, program)
    return {f"{major}.{minor}": found[major, minor][1] for major, minor in sorted(found)}


def newest(programs: Iterable[Path]) -> Path:
    """The program with the newest version; the first one of these."""
    return max(programs, key=version_of)


if __name__ == "__main__":
    print(newest(candidates(os.environ)))
