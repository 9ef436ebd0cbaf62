"""docs/CLI.md tells the truth about the commands, and its tour works."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from kwire.testing.process import BrokerProcess

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def test_the_page_of_commands_is_todays() -> None:
    """`make docs` has been run since a command, an option or its text changed."""
    spec = importlib.util.spec_from_file_location("cli_page", DOCS / "cli_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (DOCS / "CLI.md").read_text(encoding="utf-8") == module.page()


@pytest.mark.parametrize(
    ("page", "heading", "said"),
    [
        ("docs/CLI.md", "A tour", ["created orders (3 partitions)", "[customer-1]  12.50"]),
        ("README.md", "At a terminal", ["created orders (3 partitions)", "lag:         0"]),
    ],
)
def test_the_commands_of_a_page_work(
    tmp_path: Path, page: str, heading: str, said: list[str]
) -> None:
    """Every line, one after the other, against a new broker."""
    text = (ROOT / page).read_text(encoding="utf-8")
    match = re.search(rf"## {heading}\n.*?\n```\n(.*?)```", text, re.DOTALL)
    assert match is not None
    command = tmp_path / "kwire"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m kwire "$@"\n', encoding="utf-8")
    command.chmod(0o755)
    environment = os.environ | {
        "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "KWIRE_CONFIG": str(tmp_path / "none.toml"),
    }
    with BrokerProcess(tmp_path / "data") as broker:
        done = subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", match[1]],
            env=environment | {"KWIRE_BOOTSTRAP_SERVER": broker.bootstrap},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done
    for part in said:
        assert part in done.stdout
