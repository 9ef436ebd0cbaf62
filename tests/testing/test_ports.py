"""Processes of tests that run side by side are given different ports."""

import subprocess
import sys

import pytest

from tests.support import ports

PROGRAM = """
from pathlib import Path
from tests.support import ports
ports.GIVEN, ports.PORTS = Path({!r}), range(29_000, 29_001)
print(ports.free_port(), flush=True)
input()
"""


def test_no_other_process_is_given_the_same_port(tmp_path, monkeypatch):
    """Though nobody listens yet; when the process has ended, the port is free again."""
    monkeypatch.setattr(ports, "GIVEN", tmp_path / "given")
    monkeypatch.setattr(ports, "PORTS", range(29_000, 29_002))
    program = PROGRAM.format(str(tmp_path / "given"))
    other = subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    taken = int(other.stdout.readline())
    assert taken == 29_000
    assert ports.free_port() == 29_001
    other.communicate("\n")
    monkeypatch.setattr(ports, "PORTS", range(29_000, 29_001))
    assert ports.free_port() == taken


def test_ports_in_a_row(tmp_path, monkeypatch):
    """Each of them counts as given, those at a distance too."""
    monkeypatch.setattr(ports, "GIVEN", tmp_path / "given")
    first = ports.free_ports(3, apart=10)
    lines = ports.GIVEN.read_text().splitlines()
    assert [int(line.split()[1]) for line in lines] == [
        *range(first, first + 3),
        *range(first + 10, first + 13),
    ]
    monkeypatch.setattr(ports, "PORTS", range(first, first + 14))
    with pytest.raises(OSError, match="no free ports"):
        ports.free_ports(3, apart=10)
