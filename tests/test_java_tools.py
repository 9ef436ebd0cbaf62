"""Kafka's tools leave an archive of their classes for the tools after them, where Java can."""

from pathlib import Path

import pytest

from compat_tests import java_tools

JAVA = """#!/bin/sh
echo "$@"
case " $* " in *" -XX:ArchiveClassesAtExit="*)
    for one in "$@"; do case "$one" in -XX:ArchiveClassesAtExit=*) {make} ;; esac; done
esac
"""
MAKES = 'echo classes > "${one#*=}"'
CANT = "true"
BROKER = ("--bootstrap-server", "127.0.0.1:9092")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where jars and archives are; no compiler is there, so that each tool is a process."""
    monkeypatch.setattr(java_tools, "HOME", tmp_path)
    monkeypatch.setattr(java_tools, "libs", lambda: tmp_path / "libs")
    monkeypatch.setattr(java_tools, "tool_server", lambda: None)
    return tmp_path


def use(monkeypatch: pytest.MonkeyPatch, home: Path, make: str) -> None:
    """A Java that shows what it is told, and makes archives like this."""
    program = home / "java"
    program.write_text(JAVA.replace("{make}", make))
    program.chmod(0o755)
    monkeypatch.setattr(java_tools, "java_and_version", lambda: (str(program), "17"))
    monkeypatch.setattr(java_tools, "java", lambda: str(program))


def test_the_first_tool_that_talks_to_a_broker_makes_the_archive(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that reads files only has few classes. Those after it use the archive, all of them."""
    use(monkeypatch, home, MAKES)
    assert "jsa" not in java_tools.run_tool("DumpLogSegments", "--files", "f")
    assert "-XX:ArchiveClassesAtExit=" in java_tools.run_tool("Topics", *BROKER)
    [archive] = home.glob("classes-*")
    assert archive.read_text() == "classes\n"
    for main_class, arguments in (("Topics", BROKER), ("DumpLogSegments", ("--files", "f"))):
        shown = java_tools.run_tool(main_class, *arguments)
        assert f"-XX:SharedArchiveFile={archive}" in shown
    assert f"-XX:SharedArchiveFile={archive}" in java_tools.quick()


def test_a_java_that_makes_no_archive_is_asked_once(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its tools run without one."""
    use(monkeypatch, home, CANT)
    assert "-XX:ArchiveClassesAtExit=" in java_tools.run_tool("Topics", *BROKER)
    assert "XX:ArchiveClassesAtExit=" not in java_tools.run_tool("Topics", *BROKER)
    assert not any("SharedArchiveFile" in option for option in java_tools.quick())
