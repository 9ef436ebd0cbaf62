"""Facts about the machine for a table; never its name, a user or a path."""

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import time
from pathlib import Path

import kwire
from compat_tests import kafka_version


def machine() -> dict[str, str]:
    """Facts by name, as they are printed."""
    return {
        "date": time.strftime("%Y-%m-%d"),
        "processor": f"{_processor()}, {os.cpu_count()} cores",
        "memory": f"{_memory_gib():.0f} GiB",
        "system": f"{platform.system()} {platform.release()}",
        "kwire": f"{kwire.__version__} on Python {platform.python_version()},"
        f" trio {importlib.metadata.version('trio')}",
        "Apache Kafka": kafka_version.VERSION,
        "Java": _java() or "none",
        "librdkafka": _librdkafka(),
        "load generator": _compiler() or "Python (no C compiler)",
    }


def _processor() -> str:
    for line in _lines("/proc/cpuinfo"):
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _memory_gib() -> float:
    for line in _lines("/proc/meminfo"):
        if line.startswith("MemTotal:"):
            return int(line.split()[1]) / (1 << 20)
    return 0.0


def _lines(file: str) -> list[str]:
    try:
        return Path(file).read_text(encoding="utf-8").splitlines()
    except OSError:
        return []


def _java() -> str:
    from compat_tests.java_tools import MissingTool, java

    try:
        run = subprocess.run([java(), "-version"], capture_output=True, text=True, check=False)
    except MissingTool:
        return ""
    version = re.search(r'version "([^"]+)"', run.stderr)
    return version[1] if version else ""


def _librdkafka() -> str:
    import confluent_kafka

    return str(confluent_kafka.libversion()[0])


def _compiler() -> str:
    """The compiler's name and version, "" without a compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return ""
    run = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False)
    version = re.search(r"\d+\.\d+(\.\d+)?", run.stdout)
    name = "clang" if "clang" in run.stdout else "gcc"
    return f"C, {name} {version[0] if version else ''}".strip()
