"""Java and brokers for tests: the recipe of docs/TESTING.md as it stands, and faults."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from compat_tests.java_tools import TOOL_TIMEOUT_S, libs, quick, run_tool
from kwire.testing import Kafka
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
        ["java", *quick(), f"-Djava.io.tmpdir={tmp_path}", "-cp", f"{libs()}/*", str(source)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TOOL_TIMEOUT_S,
        check=False,
    )
    assert "written: orders-0@0" in ran.stdout, ran.stdout + ran.stderr


def test_kafkas_own_clients_get_over_faults() -> None:
    """Errors of Produce, and of fetches, which have sessions; a coordinator that moves."""
    tools = "org.apache.kafka.tools"
    with Kafka() as kafka:
        kafka.topic("orders")
        at = ("--bootstrap-server", kafka.bootstrap, "--topic", "orders")
        with kafka.faults.fail("Produce", topic="orders", error="NOT_LEADER_OR_FOLLOWER", times=2):
            run_tool(f"{tools}.ConsoleProducer", *at, stdin="first\nsecond\n")
        assert len(kafka.records("orders")) == 2
        faults = [
            kafka.faults.fail("Fetch", topic="orders", error="NOT_LEADER_OR_FOLLOWER", times=2),
            kafka.faults.fail("JoinGroup", error="NOT_COORDINATOR", times=1),
            kafka.faults.fail("OffsetFetch", error="COORDINATOR_LOAD_IN_PROGRESS", times=1),
            kafka.faults.cut("Fetch", times=1),
        ]
        read = run_tool(
            f"{tools}.consumer.ConsoleConsumer", *at, "--from-beginning", "--max-messages", "2"
        )
        assert read.split() == ["first", "second"]
        assert [fault for fault in faults if not fault.observed] == []
