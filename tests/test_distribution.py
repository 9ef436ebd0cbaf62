"""What ``python -m build`` makes can be published: it is complete, and it runs by itself.

``build`` makes the sdist from the sources, and the wheel from the sdist. So the sdist has all that
a build needs if the wheel is complete.
"""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import venv
from collections.abc import Iterator
from email.message import Message
from email.parser import Parser
from importlib import metadata
from pathlib import Path
from zipfile import ZipFile

import pytest
from kafka import KafkaConsumer, KafkaProducer

from kwire import __version__
from tests.test_plain_install import core_distributions

ROOT = Path(__file__).parents[1]
SOURCES = ("kwire", "deploy", "docs")
FILES = ("pyproject.toml", "MANIFEST.in", "README.md", "CHANGELOG.md", "LICENSE")
REGISTRY = re.compile(rb"https?://[^/\s\"']*(?:pypi|pythonhosted|maven|npmjs|crates)[^/\s\"']*")
NO_BYTECODE = shutil.ignore_patterns("__pycache__")


def _run(*command: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a program that has to succeed, without this process's own places for modules."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "KWIRE_"))}
    environment["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    done = subprocess.run(
        list(map(str, command)),
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        **options,  # type: ignore[call-overload]
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the sdist and the wheel, from a copy of the sources."""
    checkout = tmp_path_factory.mktemp("checkout")
    for name in SOURCES:
        shutil.copytree(ROOT / name, checkout / name, ignore=NO_BYTECODE)
    for name in FILES:
        shutil.copy(ROOT / name, checkout)
    (checkout / "tests").mkdir()
    (checkout / "tests" / "test_something.py").touch()
    _run(sys.executable, "-m", "build", "--no-isolation", cwd=checkout)
    return checkout / "dist"


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    """The wheel."""
    [wheel] = built.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def described(wheel: Path) -> Message:
    """The wheel's metadata, which a package index shows."""
    with ZipFile(wheel) as archive:
        text = archive.read(f"kwire-{__version__}.dist-info/METADATA").decode()
    return Parser().parsestr(text)


@pytest.fixture(scope="module")
def environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel and what it depends on, and nothing else, not even pip."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, symlinks=True)
    _run(
        *(sys.executable, "-m", "pip", "--python", place / "bin" / "python"),
        *("install", "--no-index", "--no-deps", wheel),
    )
    [packages] = place.glob("lib/python*/site-packages")
    for name in core_distributions() - {"kwire"}:
        files = metadata.distribution(name).files or []
        for top in {file.parts[0] for file in files} - {"..", "__pycache__"}:
            (packages / top).symlink_to(Path(sysconfig.get_path("purelib")) / top)
    return place


@pytest.fixture
def broker(environment: Path, tmp_path: Path) -> Iterator[str]:
    """The address of a broker that runs in that environment."""
    command = [environment / "bin" / "kwire", "serve", "--listen", "127.0.0.1:0"]
    clean = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    with subprocess.Popen(command, cwd=tmp_path, env=clean, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        ready = re.match(rb"kwire \S+ ready: (\S+) data=", process.stdout.readline())
        try:
            assert ready is not None
            yield ready[1].decode()
        finally:
            process.terminate()
    assert process.returncode == 0
    assert (tmp_path / "kwire-data" / ".kafka_cleanshutdown").exists()


def test_the_wheel_is_the_package_and_nothing_else(wheel: Path) -> None:
    """Every module and table is in it, and no test."""
    expected = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "kwire").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    with ZipFile(wheel) as archive:
        found = {name for name in archive.namelist() if ".dist-info/" not in name}
        typed = archive.read("kwire/config/settings.tsv")
    assert found == expected
    assert "kwire/py.typed" in found
    assert typed == (ROOT / "kwire/config/settings.tsv").read_bytes()


def test_the_wheel_is_for_every_python_and_every_processor(wheel: Path, described: Message) -> None:
    """It is pure Python, for the Pythons that it names."""
    assert wheel.name == f"kwire-{__version__}-py3-none-any.whl"
    python = "Programming Language :: Python :: 3."
    classifiers = described.get_all("Classifier", [])
    minors = [text.removeprefix(python) for text in classifiers if text.startswith(python)]
    assert minors == ["11", "12", "13", "14"]


def test_the_sdist_has_what_a_build_and_an_operator_need(built: Path) -> None:
    """The files of a service and the documentation too, and no test."""
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names.issuperset(FILES)
    assert names.issuperset({"kwire/config/documentation.tsv", "docs/OPERATIONS.md"})
    assert {str(path.relative_to(ROOT)) for path in (ROOT / "deploy").rglob("*.*")} <= names
    assert not [name for name in names if name.startswith(("tests", "bench", "build", "."))]


def test_nothing_tells_where_it_was_made(built: Path, wheel: Path) -> None:
    """No path of the machine, and no host of a package registry, which others may not reach."""
    [sdist] = built.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        files = [one for one in archive.getmembers() if one.isfile()]
        texts = {one.name: archive.extractfile(one).read() for one in files}  # type: ignore[union-attr]
    with ZipFile(wheel) as archive:
        texts |= {name: archive.read(name) for name in archive.namelist()}
    home = str(Path.home()).encode()
    machine = {str(ROOT).encode(), str(built.parent).encode(), b"/home/runner", home}
    wrong = {
        name: [*REGISTRY.findall(text), *(one for one in machine if one + b"/" in text)]
        for name, text in texts.items()
    }
    assert {name: found for name, found in wrong.items() if found} == {}


def test_the_metadata_is_true(described: Message) -> None:
    """The version, the Pythons, the platform, and what a plain install brings."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert described["Version"] == __version__
    assert described["Requires-Python"] == ">=3.11"
    assert described["License-Expression"] == "Apache-2.0"
    needed = [text for text in described.get_all("Requires-Dist", []) if "extra ==" not in text]
    assert sorted(needed) == sorted(project["dependencies"])
    systems = [c for c in described.get_all("Classifier", []) if c.startswith("Operating System")]
    assert systems == ["Operating System :: POSIX :: Linux"], "tests run on nothing else"
    assert described["Description-Content-Type"] == "text/markdown"
    assert described.get_payload().startswith("# kwire\n")


def test_the_installed_command_runs(environment: Path) -> None:
    """With its dependencies, and with no module of this checkout."""
    command = environment / "bin" / "kwire"
    assert _run(command, "--version", cwd="/").stdout == f"kwire {__version__}\n"
    assert "serve" in _run(command, "--help", cwd="/").stdout
    python = environment / "bin" / "python"
    place = _run(python, "-c", "import kwire; print(kwire.__file__)", cwd="/").stdout
    assert place.startswith(str(environment))
    _run(sys.executable, "-m", "pip", "--python", python, "check")


def test_the_installed_broker_serves_a_stock_client(broker: str) -> None:
    """What a producer writes with a codec is what a consumer reads."""
    with KafkaProducer(bootstrap_servers=broker, compression_type="gzip") as producer:
        producer.send("orders", b"one").get(timeout=30)
    consumer = KafkaConsumer("orders", bootstrap_servers=broker, auto_offset_reset="earliest")
    assert next(consumer).value == b"one"
    consumer.close()


def test_no_text_promises_an_index() -> None:
    """kwire is on no package index yet: every line that installs it names a place that is there."""
    promise = re.compile(
        r"(pip3?|pipx|uv( pip| tool)?) (install|run|add)( -\S+)* ['\"]?kwire\b|uvx kwire\b"
    )
    assert promise.search("pip install kwire")
    assert promise.search("pipx install 'kwire[cli]'")
    wrong = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in [
            *ROOT.glob("*.md"),
            *(ROOT / "docs").rglob("*.md"),
            *(ROOT / "kwire").rglob("*.py"),
        ]
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if promise.search(line)
    ]
    assert wrong == []
