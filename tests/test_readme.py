"""README and docs/APIS.md tell the truth about what is served."""

import importlib.util
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until
from tests.support.etcd import MISSING, Etcd, find_etcd
from tests.support.ports import free_port

ROOT = Path(__file__).parent.parent
ETCD = "make etcd &"
BROKERS = 3


def test_the_table_of_apis_is_todays() -> None:
    """`make docs` has been run since the table of handlers changed."""
    spec = importlib.util.spec_from_file_location("api_table", ROOT / "docs" / "api_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "APIS.md").read_text(encoding="utf-8")
    assert module.with_table(page) == page


def test_the_two_commands_are_there() -> None:
    """The commands that the README names are targets of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("run", "test", "check", "compat", "spark", "bench", "demo", "kafka", "fuzz"):
        assert f"\n{target}:" in makefile


def test_the_client_of_the_tour_works(tmp_path: Path) -> None:
    """The snippet runs as it stands, but for the address, and prints what it says it prints."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [snippet] = [
        text
        for text in re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
        if "KafkaProducer(" in text
    ]
    printed = StringIO()
    with BrokerProcess(tmp_path / "data") as broker, redirect_stdout(printed):
        names: dict[str, object] = {}
        exec(snippet.replace("127.0.0.1:9092", broker.bootstrap), names)
        names["producer"].close()  # type: ignore[attr-defined]
    assert printed.getvalue() == "1000 bookings\n"


def test_the_first_record(tmp_path: Path) -> None:
    """What a stranger types first prints what the README says."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [section] = re.findall(r"^## Ten lines.*?^## ", readme, re.DOTALL | re.M)
    start, commands = re.findall(r"```\n(.*?)```", section, re.DOTALL)
    assert start.startswith("make run ")
    activation, *typed = commands.splitlines()
    assert activation == ". .venv/bin/activate"
    with BrokerProcess(tmp_path / "data") as broker:
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-ec", "\n".join(typed)],
            cwd=tmp_path,
            env={**os.environ, "PATH": path, "KWIRE_BOOTSTRAP_SERVER": broker.bootstrap},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "hello"
    assert "It prints `hello`." in section


def cluster_commands() -> list[str]:
    """The blocks of the section about a cluster: one machine, what is done there, one of three."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [section] = re.findall(r"^## A cluster of three\n(.*?)^## ", f"{readme}\n## ", re.DOTALL | re.M)
    return re.findall(r"```\n(.*?)```", section, re.DOTALL)


def replaced(text: str, values: dict[str, str]) -> str:
    """The text with other ports and addresses, each of which has to be there.

    The etcd is replaced first: a broker's new port may begin as the etcd's old one does.
    """
    for old, new in values.items():
        assert old in text, old
        text = text.replace(old, new)
    return text


@contextmanager
def in_a_shell(commands: str, directory: Path) -> Iterator[None]:
    """Run commands in bash; what they leave in the background ends with the block.

    What they have said is printed, so it is shown with a test that fails.
    """
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    said = directory / "said"
    with said.open("wb") as output:
        started = subprocess.Popen(
            ["bash", "-c", f"{commands}\nwait"],
            cwd=directory,
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        yield
    finally:
        os.killpg(started.pid, signal.SIGKILL)
        started.wait()
        print(said.read_text(encoding="utf-8", errors="replace"))


def brokers_seen(bootstrap: str) -> list[str]:
    """The addresses of the brokers that a broker knows."""
    command = [sys.executable, "-m", "kwire", "cluster", "brokers", "-b", bootstrap]
    said = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT).stdout
    return re.findall(r"127\.0\.0\.1:\d+|\d+\s+127\.0\.0\.1\s+\d+", said)


@pytest.fixture
def etcd() -> Iterator[Etcd]:
    """An etcd."""
    if find_etcd() is None:
        pytest.skip(MISSING)
    with Etcd() as started:
        yield started


def test_a_cluster_of_three_in_six_lines(etcd: Etcd, tmp_path: Path) -> None:
    """They work as written, but for the ports and the etcd, and the last one shows all brokers."""
    commands, *_ = cluster_commands()
    *others, last = commands.strip().splitlines()
    assert len([*others, last]) == 6
    ports = [str(free_port()) for _ in range(BROKERS)]
    moved = {"127.0.0.1:2379": etcd.members[0].endpoint, ETCD: ":"}
    moved |= {f":{9092 + number}": f":{port}" for number, port in enumerate(ports)}
    assert last == "kwire cluster brokers --bootstrap-server 127.0.0.1:9094"
    with in_a_shell(replaced("\n".join(others), moved), tmp_path):
        wait_until(
            lambda: len(brokers_seen(f"127.0.0.1:{ports[2]}")) == BROKERS,
            timeout_s=90,
            what="brokers",
        )


def test_what_is_done_with_the_cluster_and_its_end(etcd: Etcd, tmp_path: Path) -> None:
    """The topic is made, all is well, and the jobs have the numbers that are ended."""
    commands, then, _ = cluster_commands()
    *others, last = commands.strip().splitlines()
    ports = [str(free_port()) for _ in range(BROKERS)]
    moved = {"127.0.0.1:2379": etcd.members[0].endpoint}
    moved |= {f":{9092 + number}": f":{port}" for number, port in enumerate(ports)}
    lines = [replaced("\n".join(others), moved)]
    lines = [lines[0].replace(ETCD, "tail -f /dev/null &")]
    seen = [f"{last.replace('9094', port)} --json | grep -c '\"id\"'" for port in ports]
    lines += [
        *[f'until [ "$({one})" = {BROKERS} ]; do :; done' for one in seen],
        then,
        "wait %1",
        "jobs",
        "echo ended",
    ]
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "KWIRE_BOOTSTRAP_SERVER": f"127.0.0.1:{ports[0]}",
        },
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )
    said = f"{done.stdout}\n{done.stderr}"
    assert "created orders (3 partitions)\n" in done.stdout, said
    assert "\nhealthy\n" in done.stdout, said
    assert done.stdout.endswith("\nended\n"), said
    assert "Running" not in done.stdout, said
    assert done.stderr.count("stopped cleanly") == BROKERS, said


def test_a_cluster_on_three_machines(etcd: Etcd, tmp_path: Path) -> None:
    """The brokers find each other by what they advertise; here all machines are this one."""
    *_, commands = cluster_commands()
    ports = [str(free_port()) for _ in range(BROKERS)]
    store = "etcd-1:2379,etcd-2:2379,etcd-3:2379"
    lines = []
    for number, port in enumerate(ports, 1):
        own = {
            "--data-dir data": f"--data-dir data-{number}",
            "0.0.0.0:9092": f"127.0.0.1:{port}",
            "kafka-1:9092": f"127.0.0.1:{port}",
            "node.id=1": f"node.id={number}",
            store: etcd.members[0].endpoint,
        }
        lines.append(f"{replaced(commands.strip(), own)} &")
    with in_a_shell("\n".join(lines), tmp_path):
        wait_until(
            lambda: len(brokers_seen(f"127.0.0.1:{ports[0]}")) == BROKERS,
            timeout_s=90,
            what="brokers",
        )
