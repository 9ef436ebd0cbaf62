"""The Java recipe of docs/TESTING.md runs as it stands, with Kafka's own client."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.java_tools import QUICK, TOOL_TIMEOUT_S, libs
from tests.testing.recipes import recipes


@pytest.mark.skipif(
    not shutil.which("javac"), reason="a JDK is missing (Debian, Ubuntu: openjdk-17-jdk-headless)"
)
def test_a_test_in_java(tmp_path: Path) -> None:
    """It starts a broker, and a stock producer writes to it."""
    [(name, text)] = recipes("recipe-of-java").items()
    source = tmp_path / f"{name}.java"
    source.write_text(text, encoding="utf-8")
    command = tmp_path / "bin" / "kwire"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m kwire "$@"\n')
    command.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{command.parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "TMPDIR": str(tmp_path),
    }
    ran = subprocess.run(
        ["java", *QUICK, f"-Djava.io.tmpdir={tmp_path}", "-cp", f"{libs()}/*", str(source)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TOOL_TIMEOUT_S,
        check=False,
    )
    assert "written: orders-0@0" in ran.stdout, ran.stdout + ran.stderr
