"""podman or docker, and what the tests ask it for."""

import json
import os
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BUILD_TIMEOUT_S = 1800.0
TIMEOUT_S = 240.0
"""More than the three minutes that a stop may take."""


def command() -> list[str]:
    """How to call the tool: ``KWIRE_CONTAINER_TOOL``, podman or docker; empty without any."""
    named = os.environ.get("KWIRE_CONTAINER_TOOL")
    if named:
        return shlex.split(named)
    return [tool for tool in ("podman", "docker") if shutil.which(tool)][:1]


def run(*arguments: str, may_fail: bool = False, timeout_s: float = TIMEOUT_S) -> str:
    """Run the tool; returns what it writes to standard output, or to both if it may fail."""
    done = subprocess.run(
        [*command(), *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if may_fail else subprocess.PIPE,
        text=True,
        timeout=timeout_s,
        cwd=ROOT,
        check=False,
    )
    assert may_fail or done.returncode == 0, f"{arguments}: {done.stderr}{done.stdout}"
    return done.stdout.strip()


def inspect(container: str) -> Any:
    """All that the tool knows about a container."""
    return json.loads(run("container", "inspect", container))[0]


def has_health_command() -> bool:
    """podman's timer for health checks needs systemd; its command runs one now. Docker has none."""
    return "healthcheck" in run("--help")


def build() -> str:
    """Build the image, unless ``KWIRE_IMAGE`` names one; returns its name."""
    named = os.environ.get("KWIRE_IMAGE")
    if named:
        return named
    # podman's own format has no health check.
    own_format = ["--format", "docker"] if has_health_command() else []
    arguments = [*own_format, "-t", "kwire-test", "-f", "deploy/Containerfile", "."]
    run("build", *arguments, timeout_s=BUILD_TIMEOUT_S)
    return "kwire-test"
