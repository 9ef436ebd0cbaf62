"""The JVM that stays runs a tool as a process would: its exit code, its output, its end."""

import re
from pathlib import Path

import pytest

from compat_tests import java_tools
from compat_tests.clients import READ_TIMEOUT_S, produce_confluent
from compat_tests.conftest import Names
from compat_tests.java_server import HostedTool, compiled_server
from compat_tests.test_java_tools import CONSUMER, GROUPS, TOPICS
from tests.support.topics import create_topics

VERIFIABLE_PRODUCER = "org.apache.kafka.tools.VerifiableProducer"
VERIFIABLE_CONSUMER = "org.apache.kafka.tools.VerifiableConsumer"


@pytest.fixture(autouse=True)
def server(bootstrap: str) -> java_tools.ToolServer:
    """The JVM; it is there from the first tool on that finds an archive of classes."""
    java_tools.run_tool(TOPICS, "--bootstrap-server", bootstrap, "--list")
    found = java_tools.tool_server()
    if found is None:
        pytest.skip("no Java compiler is here: each tool is a process")
    return found


def test_a_tool_fails_and_the_next_one_runs(
    bootstrap: str, names: Names, server: java_tools.ToolServer
) -> None:
    """What it says on stderr and on stdout stays apart."""
    create_topics(bootstrap, topic := names.topic("java"))
    at = ("--bootstrap-server", bootstrap, "--describe", "--topic")
    failed = java_tools.finished_tool(TOPICS, *at, names.topic("missing"))
    assert failed.returncode == 1
    assert "Error while executing topic command" in failed.stdout
    assert "InvalidTopic" in failed.stderr or "IllegalArgument" in failed.stderr
    shown = java_tools.finished_tool(TOPICS, *at, topic)
    assert shown.returncode == 0
    assert shown.stdout.startswith(f"Topic: {topic}")
    assert java_tools.tool_server() is server


def test_a_tool_that_ends_its_jvm(bootstrap: str, server: java_tools.ToolServer) -> None:
    """Its exit code and words are there all the same; the next tool gets a new JVM."""
    at = ("--bootstrap-server", bootstrap)
    failed = java_tools.finished_tool(VERIFIABLE_CONSUMER, *at)
    assert failed.returncode == 1
    assert "usage: verifiable-consumer" in failed.stderr
    assert not server.is_usable()
    assert java_tools.finished_tool(TOPICS, *at, "--list").returncode == 0


@pytest.mark.parametrize(
    ("tool", "options"), [(CONSUMER, ()), (VERIFIABLE_PRODUCER, ("--throughput", "20"))]
)
def test_a_tool_that_takes_too_long(
    bootstrap: str,
    names: Names,
    server: java_tools.ToolServer,
    tool: str,
    options: tuple[str, ...],
) -> None:
    """It is ended, with its JVM, also while it prints."""
    create_topics(bootstrap, topic := names.topic("java"))
    endless = ("--bootstrap-server", bootstrap, "--topic", topic, *options)
    with pytest.raises(TimeoutError):
        server.run(tool, endless, stdin="", timeout_s=1)
    assert not server.is_usable()


def test_how_a_tool_beside_the_test_ended(
    bootstrap: str, names: Names, server: java_tools.ToolServer
) -> None:
    """Its own exit code, that of SIGTERM, or that of a process which was killed."""
    at = ("--bootstrap-server", bootstrap)
    failed = server.start(TOPICS, (*at, "--describe", "--topic", names.topic("missing")))
    assert failed.stdout is not None
    with failed.stdout as stdout:
        stdout.read()
    failed.wait(READ_TIMEOUT_S)
    assert failed.poll() == 1
    create_topics(bootstrap, topic := names.topic("java"))
    endless = (VERIFIABLE_PRODUCER, (*at, "--topic", topic, "--throughput", "20"))
    for end, code in ((HostedTool.terminate, 143), (HostedTool.kill, -9)):
        running = server.start(*endless)
        assert running.stdout is not None
        with running.stdout as stdout:
            assert "startup_complete" in stdout.readline()
            assert running.poll() is None
            end(running)
            stdout.read()
        running.wait(READ_TIMEOUT_S)
        assert running.poll() == code


def test_a_compiler_that_does_not_work_is_none(tmp_path: Path) -> None:
    """Such as one that is older than the server: each tool is a process then."""
    for name in ("java", "javac"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\nexit 2\n", encoding="utf-8")
        program.chmod(0o755)
    assert compiled_server(str(tmp_path / "java"), tmp_path) is None


def test_surroundings_are_those_of_a_new_jvm(
    bootstrap: str,
    server: java_tools.ToolServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its directory and its JAVA_TOOL_OPTIONS are those of this process, as they are now."""
    (tmp_path / "client.properties").write_text("client.id=known\n", encoding="utf-8")
    at = ("--bootstrap-server", bootstrap, "--list", "--command-config", "client.properties")
    monkeypatch.chdir(tmp_path)
    java_tools.run_tool(TOPICS, *at)
    assert not server.is_usable()
    second = java_tools.tool_server()
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dfile.encoding=UTF-8")
    java_tools.run_tool(TOPICS, *at)
    assert java_tools.tool_server() is not second


def test_what_has_been_read_is_committed_at_the_end(
    bootstrap: str, names: Names, server: java_tools.ToolServer
) -> None:
    """A shutdown hook of the tool closes its consumer, which leaves its group."""
    topic, group = names.topic("java"), names.group()
    create_topics(bootstrap, topic)
    produce_confluent(bootstrap, topic, [(b"k", b"v", [])] * 5)
    at = ("--bootstrap-server", bootstrap)
    arguments = ("--topic", topic, "--group-id", group, "--max-messages", "5")
    read = java_tools.run_tool(VERIFIABLE_CONSUMER, *at, *arguments, "--reset-policy", "earliest")
    assert "shutdown_complete" in read
    shown = java_tools.run_tool(GROUPS, *at, "--describe", "--group", group)
    assert re.search(rf"{topic}\s+0\s+5\s+5\s+0", shown)
    assert java_tools.tool_server() is server
