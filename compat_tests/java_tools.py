"""Kafka's own jars and Java: fetched once by Maven, run as processes.

The jars of Apache Kafka and its tools land in ``.cache/kafka-VERSION/libs``. What is missing on
this machine (Java 17, Maven) is said in one sentence, by MissingTool.

A tool spends most of its second on loading the same thousands of classes as the one before it. The
first tool that talks to a broker leaves an archive of its classes beside the jars, and those after
it start in half the time. Java checks for itself that an archive fits, and does without otherwise.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from compat_tests import kafka_version
from compat_tests.java_server import MAIN_CLASS, OPTIONS, HostedTool, ToolServer, compiled_server
from tests.support.maven import one_maven

ROOT = Path(__file__).parent.parent
HOME = ROOT / ".cache" / f"kafka-{kafka_version.VERSION}"
LIBS = HOME / "libs"
STREAMS_LIBS = HOME / "streams"
STREAMS_TESTS_LIBS = HOME / "streams-tests"
STREAMS_TESTS = "org.apache.kafka.streams.tests."
MIRROR = "org.apache.kafka.connect.mirror."
CONNECT_LIBS = HOME / "connect"
POM = Path(__file__).parent / "java" / "pom.xml"
STREAMS_POM = Path(__file__).parent / "java" / "streams.xml"
STREAMS_TESTS_POM = Path(__file__).parent / "java" / "streams_tests.xml"
CONNECT_POM = Path(__file__).parent / "java" / "connect.xml"
MIRROR_LIBS = HOME / "mirror"
MIRROR_POM = Path(__file__).parent / "java" / "mirror.xml"
DEBEZIUM_LIBS = HOME / "debezium"
DEBEZIUM_POM = Path(__file__).parent / "java" / "debezium.xml"
APICURIO_LIBS = HOME / "apicurio"
APICURIO_POM = Path(__file__).parent / "java" / "apicurio.xml"
CHECKERS_LIBS = HOME / "schema-checkers"
CHECKERS_POM = Path(__file__).parent / "java" / "schema_checkers.xml"
CHECKERS_SOURCE = Path(__file__).parent / "java" / "SchemaPairs.java"
FLEET_SOURCE = Path(__file__).parent / "java" / "StreamsFleet.java"
TOOL_TIMEOUT_S = 120

_QUICK = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m", "-XX:+UseSerialGC")
_SILENT = "-Xlog:cds*=off"
"""An archive that doesn't fit is no matter, and the warning would be on stdout."""

_LOG_CONFIG = """\
<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="ERROR">
  <Appenders><Console name="err" target="SYSTEM_ERR"><PatternLayout pattern="%d %p %c: %m%n"/>
  </Console></Appenders>
  <Loggers><Root level="WARN"><AppenderRef ref="err"/></Root></Loggers>
</Configuration>
"""


class MissingTool(Exception):
    """Something that has to be installed; the text says what."""


@cache
def java() -> str:
    """The java command, 17 or newer; MissingTool where there is none."""
    return java_and_version()[0]


@cache
def java_and_version() -> tuple[str, str]:
    home = os.environ.get("JAVA_HOME")
    in_home = shutil.which(str(Path(home) / "bin" / "java")) if home else None
    for candidate in filter(None, (in_home, shutil.which("java"))):
        run = subprocess.run([candidate, "-version"], capture_output=True, text=True, check=False)
        version = re.search(r'version "(\d+)', run.stderr)
        if version and int(version[1]) >= 17:
            return candidate, run.stderr
    raise MissingTool(
        "Kafka's Java tools need Java 17 or newer, in JAVA_HOME or on PATH"
        " (Debian, Ubuntu: apt install openjdk-17-jre-headless; macOS: brew install openjdk@17)"
    )


@cache
def libs() -> Path:
    """The directory of the jars, fetched if need be; MissingTool without Maven."""
    return _fetched(POM, LIBS, "complete")


@cache
def streams_libs() -> Path:
    """The directory of Kafka Streams' jars; as ``libs``."""
    return _fetched(STREAMS_POM, STREAMS_LIBS, "streams-complete")


@cache
def streams_tests_libs() -> Path:
    """The directory of the jars of Kafka Streams' own system tests; as ``libs``."""
    return _fetched(STREAMS_TESTS_POM, STREAMS_TESTS_LIBS, "streams-tests-complete")


@cache
def connect_libs() -> Path:
    """The directory of Kafka Connect's jars with its file connectors; as ``libs``."""
    return _fetched(CONNECT_POM, CONNECT_LIBS, "connect-complete")


@cache
def mirror_libs() -> Path:
    """The directory of MirrorMaker's jars; as ``libs``."""
    return _fetched(MIRROR_POM, MIRROR_LIBS, "mirror-complete")


@cache
def debezium_libs() -> Path:
    """The directory of Debezium's connector for PostgreSQL; as ``libs``."""
    return _fetched(DEBEZIUM_POM, DEBEZIUM_LIBS, "debezium-complete")


@cache
def apicurio_libs() -> Path:
    """The directory of Apicurio's Avro converter for Connect; as ``libs``."""
    return _fetched(APICURIO_POM, APICURIO_LIBS, "apicurio-complete")


@cache
def schema_checkers_command() -> list[str]:
    """The command line of SchemaPairs.java, which Java compiles itself; MissingTool."""
    jars = _fetched(CHECKERS_POM, CHECKERS_LIBS, "schema-checkers-complete")
    if shutil.which("javac") is None:
        raise MissingTool("comparing schemas with others' checkers needs a JDK, the javac command")
    return [java(), "-cp", f"{jars}/*", str(CHECKERS_SOURCE)]


def _fetched(pom: Path, directory: Path, mark: str) -> Path:
    HOME.mkdir(parents=True, exist_ok=True)
    with one_maven():
        if not (HOME / mark).exists():
            _fetch(pom, directory)
            (HOME / mark).touch()
    return directory


def _fetch(pom: Path, directory: Path) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingTool(
            "fetching Kafka's jars needs Maven, the mvn command"
            " (Debian, Ubuntu: apt install maven; macOS: brew install maven)"
        )
    shutil.rmtree(directory, ignore_errors=True)
    for archive in HOME.glob("classes-*.jsa"):
        archive.unlink()
    print(f"fetching jars for {kafka_version.NAME} …", file=sys.stderr, flush=True)
    fetch = [maven, "-q", "-B", "-f", str(pom), "dependency:copy-dependencies"]
    fetch += [f"-Dkafka.version={kafka_version.VERSION}"]
    fetch += ["-DincludeScope=runtime", f"-DoutputDirectory={directory}"]
    run = subprocess.run(fetch, capture_output=True, text=True, check=False)
    if run.returncode:
        raise MissingTool(f"Maven could not fetch Kafka's jars:\n{run.stdout[-2000:]}")


def _archive() -> Path:
    """Where the classes of tools are for this Java; empty if it can't make an archive."""
    name = hashlib.sha256("".join(java_and_version()).encode()).hexdigest()[:12]
    return HOME / f"classes-{name}.jsa"


def quick() -> tuple[str, ...]:
    """Options for tools that run for a moment."""
    archive = _archive()
    is_made = archive.exists() and archive.stat().st_size
    return (*_QUICK, f"-XX:SharedArchiveFile={archive}", _SILENT) if is_made else _QUICK


@contextmanager
def _archiving(arguments: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Options for a tool that runs to its end: the first that talks to a broker makes the archive.

    Several may do so at the same time; each replaces the whole file.
    """
    archive = _archive()
    if archive.exists() or "--bootstrap-server" not in arguments:
        yield quick()
        return
    made = archive.with_suffix(f".{os.getpid()}")
    yield (*_QUICK, f"-XX:ArchiveClassesAtExit={made}", _SILENT)
    made.touch()
    made.rename(archive)


def command(main_class: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
    """The command line that runs a class of the jars; it logs warnings to stderr."""
    jars = libs()
    log_config = HOME / "log4j2.xml"
    if not log_config.exists():
        made = log_config.with_suffix(f".{os.getpid()}")  # others may start at the same time
        made.write_text(_LOG_CONFIG, encoding="utf-8")
        made.rename(log_config)
    start = [java(), f"-Dlog4j2.configurationFile={log_config}", *options]
    return [*start, "-cp", f"{jars}/*", main_class, *arguments]


def streams_command(main_class: str, *arguments: str) -> list[str]:
    """Like ``command``, for a class of Kafka Streams' jars; it may run for longer."""
    start = command(main_class, *arguments, options=quick())
    jars = streams_tests_libs() if main_class.startswith(STREAMS_TESTS) else streams_libs()
    place = start.index("-cp") + 1
    return [*start[:place], f"{jars}/*:{start[place]}", *start[place + 1 :]]


def fleet_command(*arguments: str) -> list[str]:
    """The command line of StreamsFleet.java, which Java compiles itself; MissingTool."""
    if shutil.which("javac") is None:
        raise MissingTool("instances of Kafka Streams in one JVM need a JDK, the javac command")
    return streams_command(str(FLEET_SOURCE), *arguments)


def connect_command(main_class: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
    """Like ``command``, for a class of Kafka Connect or of MirrorMaker."""
    start = command(main_class, *arguments, options=options)
    jars = mirror_libs() if main_class.startswith(MIRROR) else connect_libs()
    place = start.index("-cp") + 1
    return [*start[:place], f"{jars}/*", *start[place + 1 :]]


def further_options(arguments: tuple[str, ...]) -> tuple[str, ...]:
    """What a tool is told besides. ``secured_clients`` has another function in this place."""
    return ()


def tool_command(
    main_class: str, *arguments: str, options: Sequence[str] | None = None
) -> list[str]:
    """Like ``command``, for a tool that runs for a moment and takes ``--bootstrap-server``."""
    options = quick() if options is None else options
    return command(main_class, *arguments, *further_options(arguments), options=options)


def finished_tool(
    main_class: str, *arguments: str, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    """How a tool ended, and what it printed."""
    server = tool_server() if _archive().exists() else None
    if server is not None:
        return server.run(main_class, arguments, stdin, TOOL_TIMEOUT_S)
    with _archiving(arguments) as options:
        return subprocess.run(
            command(main_class, *arguments, options=options),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=TOOL_TIMEOUT_S,
            check=False,
        )


_servers: list[ToolServer] = []


def tool_server() -> ToolServer | None:
    """The JVM that runs tools; None where it can't be compiled."""
    classes = compiled_server(java(), HOME)
    if classes is None:
        return None
    if not _servers or not _servers[0].is_usable():
        while _servers:
            _servers.pop().close()
        start = command(MAIN_CLASS, options=(*quick(), *OPTIONS))
        place = start.index("-cp") + 1
        _servers.append(
            ToolServer([*start[:place], f"{start[place]}:{classes}", *start[place + 1 :]])
        )
    return _servers[0]


def run_tool(main_class: str, *arguments: str, stdin: str = "", fails: bool = False) -> str:
    """Run a tool to its end and return what it printed.

    AssertionError, with all it printed, when it fails; with ``fails`` when it does not, and then
    what it printed on stderr is returned too.
    """
    run = finished_tool(main_class, *arguments, *further_options(arguments), stdin=stdin)
    shown = f"{main_class} {arguments} ended with {run.returncode}\n{run.stdout}\n{run.stderr}"
    assert (run.returncode != 0) is fails, shown
    return run.stdout + run.stderr if fails else run.stdout


def started_tool(
    main_class: str, *arguments: str, is_killed: bool = False
) -> subprocess.Popen[str] | HostedTool:
    """Start a tool that runs beside the test, with a pipe for its stdout.

    One that the test kills, as a crash would, is a process of its own.
    """
    arguments = (*arguments, *further_options(arguments))
    server = None if is_killed or not _archive().exists() else tool_server()
    if server is not None:
        return server.start(main_class, arguments)
    return subprocess.Popen(
        command(main_class, *arguments, options=quick()),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
