"""On Windows kwire says in one line that it does not run there."""

import subprocess
import sys

import pytest

ON_WINDOWS = """
import sys
sys.platform = "win32"
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None  # an import of it fails, as there
from kwire.cli import main
sys.exit(main(sys.argv[1:]))
"""


@pytest.mark.parametrize("arguments", [[], ["serve"], ["--version"], ["nothing"]])
def test_windows_says_at_once_why_it_cannot(arguments: list[str]) -> None:
    """One line, with the way out, instead of a traceback about a missing module."""
    done = subprocess.run(
        [sys.executable, "-c", ON_WINDOWS, *arguments],
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("kwire: this is Windows, where kwire does not run: its log")
    assert "Run kwire in WSL" in done.stderr
    assert len(done.stderr.splitlines()) == 1
