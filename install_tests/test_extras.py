"""The wheel in a clean environment of each Python of this machine, with each of its extras.

``make installs`` makes the wheel first. Each environment has what the wheel's own metadata names
and nothing else; what belongs together is proved by a command that needs the extra.
"""

import os
import re
import shutil
import subprocess
from collections.abc import Callable
from email.parser import Parser
from pathlib import Path
from urllib.request import urlopen
from zipfile import ZipFile

import pytest

from tests.support.newest_python import candidates, each_minor

ROOT = Path(__file__).parents[1]
UV = ROOT / ".venv-publish" / "bin" / "uv"
PYTHONS = each_minor(candidates(os.environ))
WHEELS = sorted((ROOT / "dist").glob("kwire-*.whl"))
NO_WHEEL = "there is no wheel in dist/: make installs makes it"
PATIENCE_S = 900
"""So long an installation may take: the extra ``spark`` brings 400 MB."""

A_TEST = """
def test_a_record(kafka):
    kafka.topic("orders", records=["one"])
    assert [record.value for record in kafka.records("orders")] == [b"one"]
"""


def _extras() -> list[str]:
    if not WHEELS:
        return []
    with ZipFile(WHEELS[-1]) as archive:
        [name] = [one for one in archive.namelist() if one.endswith(".dist-info/METADATA")]
        described = Parser().parsestr(archive.read(name).decode())
    return ["", *described.get_all("Provides-Extra", [])]


class Installed:
    """An environment with the wheel, and a directory to work in."""

    def __init__(self, place: Path, extra: str, python: Path) -> None:
        self.directory = place
        self.bin = place / "environment" / "bin"
        self.run(UV, "venv", "-q", "--python", python, place / "environment")
        wanted = f"{WHEELS[-1]}[{extra}]" if extra else str(WHEELS[-1])
        self.run(UV, "pip", "install", "-q", "--python", self.bin / "python", wanted)
        self.run(UV, "pip", "check", "--python", self.bin / "python")

    def run(self, *command: str | Path, stdin: str = "") -> str:
        """What a program prints that has to succeed."""
        done = subprocess.run(
            list(map(str, command)),
            cwd=self.directory,
            env=self.environment(),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def kwire(self, *arguments: str, stdin: str = "") -> str:
        """What the command kwire prints."""
        return self.run(self.bin / "kwire", *arguments, stdin=stdin)

    def environment(self) -> dict[str, str]:
        """Without what points to this checkout or to another environment."""
        strange = ("PYTHON", "KWIRE_", "VIRTUAL_ENV")
        return {name: text for name, text in os.environ.items() if not name.startswith(strange)}

    def serve(self, *options: str, then: Callable[[re.Match[str]], None]) -> None:
        """Run a broker while something is done with what it says when it is ready."""
        command = [self.bin / "kwire", "serve", "--listen", "127.0.0.1:0", *options]
        with subprocess.Popen(
            command, cwd=self.directory, env=self.environment(), stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            try:
                ready = re.match(r"kwire \S+ ready: (\S+) .*", process.stdout.readline())
                assert ready is not None
                then(ready)
            finally:
                process.terminate()
        assert process.returncode == 0


def _a_record(installed: Installed) -> None:
    def exchange(ready: re.Match[str]) -> None:
        at = ("--bootstrap-server", ready[1])
        installed.kwire("produce", "orders", "--create", *at, stdin="one\n")
        read = installed.kwire("consume", "orders", "--from-beginning", "--exit", *at)
        assert read.split() == ["one"]

    installed.serve(then=exchange)


def _page(installed: Installed) -> None:
    def look(ready: re.Match[str]) -> None:
        [address] = re.findall(r"http=(\S+)", ready[0])
        with urlopen(f"{address}healthz") as answer:
            assert answer.status == 200

    installed.serve("--http", "127.0.0.1:0", then=look)


def _test_of_a_user(installed: Installed) -> None:
    (installed.directory / "test_orders.py").write_text(A_TEST, encoding="utf-8")
    assert "1 passed" in installed.run(installed.bin / "pytest", "-q")


def _secured(installed: Installed) -> None:
    installed.kwire("secure", "init", "secured")
    installed.serve("--config", "secured/server.properties", then=lambda ready: None)


def _modules(*names: str) -> Callable[[Installed], None]:
    def proof(installed: Installed) -> None:
        installed.run(installed.bin / "python", "-c", f"import {', '.join(names)}")

    return proof


PROOFS: dict[str, Callable[[Installed], object]] = {
    "": _a_record,
    "cli": lambda installed: installed.kwire("completion", "bash"),
    "web": _page,
    "schemas": _modules("confluent_kafka.schema_registry", "grpc_tools", "kwire.schemas.readable"),
    "registry": _modules("grpc_tools", "google.protobuf", "kwire.registry.app"),
    "cluster": _modules("kwire.cluster_server"),
    "security": _secured,
    "gssapi": _modules("gssapi", "kwire.cli"),
    "test": _test_of_a_user,
    "dev": _test_of_a_user,
    "build": _modules("setuptools", "kwire"),
    "publish": _modules("build", "material", "twine"),
    "spark": lambda installed: installed.kwire("pipeline", "init", "people.toml"),
}
"""What shows that an extra brings what it is for; the empty one is a plain installation."""


def test_there_is_a_wheel() -> None:
    """Without one the tests that follow would prove nothing."""
    assert len(WHEELS) == 1, NO_WHEEL
    assert set(_extras()) == PROOFS.keys()


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("extra", _extras(), ids=lambda extra: extra or "plain")
def test_an_extra(extra: str, python: str, tmp_path: Path) -> None:
    """It installs, its packages fit each other, and what it is for works."""
    if extra == "gssapi" and not shutil.which("krb5-config"):
        pytest.skip("gssapi is compiled with MIT Kerberos (Debian: apt install libkrb5-dev)")
    PROOFS[extra](Installed(tmp_path, extra, PYTHONS[python]))
