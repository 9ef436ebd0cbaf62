"""The compiled kwire for measurements: ``make compiled`` makes it from the current sources."""

import shutil
import subprocess
from pathlib import Path

from rich.console import Console

from bench.brokers import COMPILED_MARK

ROOT = Path(__file__).parent.parent
COMPILED = ROOT / "build" / "compiled"
TIME_LIMIT_S = 1800


class NotCompiled(Exception):
    """kwire can't be compiled on this machine; the text is one line that says why."""


def compiled_kwire(console: Console) -> Path:
    """The directory with the compiled package, which is updated if sources have changed."""
    if not any(map(shutil.which, ("cc", "gcc", "clang"))):
        raise NotCompiled("a C compiler is needed")
    what = "compiling kwire: about a minute when its sources have changed"
    if not console.is_terminal:
        console.print(what, highlight=False)
    with console.status(what):
        run = subprocess.run(
            ["make", "-s", "compiled"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=TIME_LIMIT_S,
            check=False,
        )
    if run.returncode:
        said = (run.stderr.strip() or run.stdout.strip() or "no word").splitlines()
        raise NotCompiled(f"make compiled: {said[-1]}")
    if not any(COMPILED.glob(f"*{COMPILED_MARK}*")):
        raise NotCompiled(f"{COMPILED.relative_to(ROOT)} has no compiled modules")
    return COMPILED
