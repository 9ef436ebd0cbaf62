"""Kafka's own jars and Java: fetched once by Maven, run as processes.

The jars of Apache Kafka 4.3.1 and its tools land in ``.cache/kafka-4.3.1/libs``. What is missing on
this machine (Java 17, Maven) is said in one sentence, by MissingTool.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
HOME = ROOT / ".cache" / "kafka-4.3.1"
LIBS = HOME / "libs"
POM = Path(__file__).parent / "java" / "pom.xml"
TOOL_TIMEOUT_S = 120

_LOG_CONFIG = """\
<?xml version="1.0" encoding="UTF-8"?>
<Configuration status="ERROR">
  <Appenders><Console name="err" target="SYSTEM_ERR"><PatternLayout pattern="%d %p %c: %m%n"/>
  </Console></Appenders>
  <Loggers><Root level="LEVEL"><AppenderRef ref="err"/></Root></Loggers>
</Configuration>
"""


class MissingTool(Exception):
    """Something that has to be installed; the text says what."""


def java() -> str:
    """The java command, 17 or newer; MissingTool where there is none."""
    home = os.environ.get("JAVA_HOME")
    candidates = [str(Path(home) / "bin" / "java")] if home else []
    candidates += [found] if (found := shutil.which("java")) else []
    for candidate in candidates:
        run = subprocess.run([candidate, "-version"], capture_output=True, text=True, check=False)
        version = re.search(r'version "(\d+)', run.stderr)
        if version and int(version[1]) >= 17:
            return candidate
    raise MissingTool("the tests with Kafka's Java tools need Java 17 or newer (JAVA_HOME or PATH)")


def libs() -> Path:
    """The directory of the jars, fetched if need be; MissingTool without Maven."""
    if (HOME / "complete").exists():
        return LIBS
    maven = shutil.which("mvn")
    if maven is None:
        raise MissingTool("fetching Kafka's jars needs Maven (the mvn command)")
    LIBS.mkdir(parents=True, exist_ok=True)
    print("fetching the jars of Apache Kafka 4.3.1 …", flush=True)
    command = [maven, "-q", "-B", "-f", str(POM), "dependency:copy-dependencies"]
    command += ["-DincludeScope=runtime", f"-DoutputDirectory={LIBS}"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise MissingTool(f"Maven could not fetch Kafka's jars:\n{run.stdout[-2000:]}")
    (HOME / "complete").touch()
    return LIBS


def command(main_class: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
    """The command line that runs a class of the jars; it logs warnings to stderr."""
    jars = libs()
    log_config = HOME / "log4j2.xml"
    if not log_config.exists():
        log_config.write_text(_LOG_CONFIG.replace("LEVEL", "WARN"), encoding="utf-8")
    start = [java(), f"-Dlog4j2.configurationFile={log_config}", *options]
    return [*start, "-cp", f"{jars}/*", main_class, *arguments]


QUICK = ("-XX:TieredStopAtLevel=1", "-Xshare:auto", "-Xmx256m", "-XX:+UseSerialGC")
"""Options for tools that run for a moment."""


def run_tool(main_class: str, *arguments: str, stdin: str = "", check: bool = True) -> str:
    """Run a tool to its end and return what it printed; AssertionError if it failed."""
    run = subprocess.run(
        command(main_class, *arguments, options=QUICK),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=TOOL_TIMEOUT_S,
        check=False,
    )
    if check:
        shown = f"{main_class} {arguments} ended with {run.returncode}\n{run.stdout}\n{run.stderr}"
        assert run.returncode == 0, shown
    return run.stdout if check else run.stdout + run.stderr
