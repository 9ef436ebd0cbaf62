"""What is in deploy/ fits kwire: its commands run, its paths and ports agree, its files are sound.

No container is built and no unit is started here. The commands are run as a user's process.
``make container`` builds the container and runs it.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from configparser import RawConfigParser
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka.admin import AdminClient

from kwire import __version__
from kwire.cli.commands import COMMANDS
from kwire.config.broker import BrokerConfig
from kwire.config.properties import parse_properties

ROOT = Path(__file__).parents[1]
DEPLOY = ROOT / "deploy"
DATA_DIR = "/var/lib/kwire"
HEALTH = ["kwire", "health", "--bootstrap-server"]
SYSTEMD_ANALYZE = shutil.which("systemd-analyze")


@contextmanager
def _serving(arguments: list[str]) -> Iterator[tuple[list[str], str]]:
    """A broker with these arguments: its addresses, and what it logs before it is ready."""
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [sys.executable, "-m", "kwire", *arguments],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        said = ""
        try:
            for line in process.stdout:
                if ready := re.match(r"kwire \S+ ready: (\S+) data=", line):
                    yield ready[1].split(","), said
                    break
                said += line
            else:
                raise AssertionError(said)
        finally:
            process.terminate()
    assert process.returncode == 0


def _parse(command: list[str]) -> None:
    """Check that a command line is one of kwire's."""
    parser = ArgumentParser(prog="kwire", exit_on_error=False)
    commands = parser.add_subparsers()
    import_module(COMMANDS[command[1]].module).add_parser(commands)
    parser.parse_args(command[1:])


# The container.


@pytest.fixture(scope="module")
def instructions() -> list[tuple[str, str]]:
    """The Containerfile's instructions, each with its arguments on one line."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    text = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE))
    lines = [line for line in text.splitlines() if line]
    return [(line.partition(" ")[0], line.partition(" ")[2]) for line in lines]


def _last(instructions: list[tuple[str, str]], name: str) -> str:
    return [value for found, value in instructions if found == name][-1]


def _entry_point(instructions: list[tuple[str, str]]) -> list[str]:
    command = json.loads(_last(instructions, "ENTRYPOINT"))
    assert command[0] == "kwire"
    return list(command[1:])


def test_the_container_copies_what_is_there_and_sent(instructions: list[tuple[str, str]]) -> None:
    """Every source exists, and .dockerignore lets it through."""
    sent = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    copied = [value.split()[:-1] for name, value in instructions if name == "COPY"]
    sources = [source for group in copied if "--from=build" not in group for source in group]
    assert "kwire" in sources
    for source in sources:
        assert (ROOT / source).exists()
        assert f"!{source}" in sent
    locked = {path.name for path in (ROOT / "requirements").iterdir()}
    used = {name for _, value in instructions for name in re.findall(r"requirements/(\S+)", value)}
    assert used <= locked


def test_the_container_is_nobody_and_keeps_its_data(instructions: list[tuple[str, str]]) -> None:
    """It isn't root, and its data directory is a volume that it owns."""
    user = _last(instructions, "USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    made = _last(instructions, "RUN")
    assert f"--uid {user.split(':')[0]} " in made
    assert f"install -d -o kwire -g kwire -m 0750 {DATA_DIR}" in made
    assert _last(instructions, "VOLUME") == DATA_DIR
    entry_point = _entry_point(instructions)
    assert entry_point[entry_point.index("--data-dir") + 1] == DATA_DIR


def test_the_container_opens_the_ports_that_it_names(instructions: list[tuple[str, str]]) -> None:
    """The ports of its listeners; its health check asks one of them."""
    entry_point = _entry_point(instructions)
    listens = [entry_point[i + 1] for i, word in enumerate(entry_point) if word == "--listen"]
    ports = [listener.rpartition(":")[2] for listener in listens]
    assert _last(instructions, "EXPOSE").split() == ports
    check = json.loads(_last(instructions, "HEALTHCHECK").partition(" CMD ")[2])
    assert check == [*HEALTH, f"127.0.0.1:{ports[0]}"]
    _parse(check)


def _locally(arguments: list[str], data_dir: Path) -> list[str]:
    """The container's arguments, for a process on this machine: another directory, free ports."""
    arguments = [word.replace(DATA_DIR, str(data_dir)) for word in arguments]
    return [re.sub(r"//0\.0\.0\.0:\d+", "//127.0.0.1:0", word) for word in arguments]


def _told(bootstrap: str) -> tuple[str, int]:
    """The address of the broker that a client is told. librdkafka needn't connect to it."""
    client = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
    [broker] = client.list_topics(timeout=30).brokers.values()
    return broker.host, broker.port


def test_the_container_tells_each_client_an_address_that_it_reaches(
    instructions: list[tuple[str, str]], tmp_path: Path
) -> None:
    """Other containers the one they dialed, programs on the host the published port."""
    with _serving(_locally(_entry_point(instructions), tmp_path)) as (addresses, _):
        network, host = addresses
        assert _told(network) == ("127.0.0.1", int(network.rpartition(":")[2]))
        assert _told(host) == ("localhost", 9092)


def test_the_container_takes_options_at_its_end(
    instructions: list[tuple[str, str]], tmp_path: Path
) -> None:
    """As the Containerfile says for another published port: the last -o of a name counts."""
    text = (DEPLOY / "Containerfile").read_text(encoding="utf-8")
    [option] = re.findall(r"kwire (-o advertised\.listeners=HOST://localhost:5000)", text)
    arguments = _locally(_entry_point(instructions), tmp_path) + option.split()
    with _serving(arguments) as (addresses, _):
        assert _told(addresses[1]) == ("localhost", 5000)


# The unit.


@pytest.fixture(scope="module")
def unit() -> dict[str, str]:
    """The settings of the unit's service."""
    parser = RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(DEPLOY / "systemd" / "kwire.service", encoding="utf-8")
    return dict(parser["Service"])


def test_the_unit_runs_kwire(unit: dict[str, str], tmp_path: Path) -> None:
    """Its command line and its settings are kwire's, without a warning, on this machine only."""
    program, *arguments = unit["ExecStart"].split()
    assert program == "/opt/kwire/bin/kwire"
    given = {"/etc/kwire": str(DEPLOY / "systemd"), DATA_DIR: str(tmp_path)}
    for place, here in given.items():
        arguments = [word.replace(place, here) for word in arguments]
    with _serving([*arguments, "--listen", "127.0.0.1:0"]) as (_, said):
        assert said == ""
    text = (DEPLOY / "systemd" / "server.properties").read_text(encoding="utf-8")
    config = BrokerConfig.load(parse_properties(text))
    assert config.listeners()[0].host == "127.0.0.1"
    every = BrokerConfig.load(parse_properties(re.sub(r"^#(\w\S*=)", r"\1", text, flags=re.M)))
    assert every["kwire.network.trusted"] is True
    assert every["log.flush.interval.messages"] == 1


def test_the_unit_owns_its_directory(unit: dict[str, str]) -> None:
    """systemd makes it for the unit's user, whom sysusers makes."""
    assert f"/var/lib/{unit['StateDirectory']}" == DATA_DIR == unit["WorkingDirectory"]
    users = (DEPLOY / "systemd" / "kwire.sysusers.conf").read_text(encoding="utf-8")
    assert f"u {unit['User']} " in users
    assert unit["User"] == unit["Group"] != "root"
    assert unit["Type"] == "notify"
    assert unit["TimeoutStartSec"] == "infinity", "a recovery may take longer than any limit"


def test_a_broker_that_hangs_says_where_when_systemd_ends_it(
    unit: dict[str, str], tmp_path: Path
) -> None:
    """systemd sends SIGABRT. The stack is on standard error, which is the journal."""
    name, _, value = unit["Environment"].partition("=")
    with subprocess.Popen(
        [sys.executable, "-m", "kwire", "serve", "--data-dir", "data", "--listen", "127.0.0.1:0"],
        env=os.environ | {"PYTHONPATH": str(ROOT), name: value},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            assert " ready: " in process.stdout.readline()
            process.send_signal(signal.SIGABRT)
            said = process.stdout.read()
        finally:
            process.kill()
    assert "Fatal Python error: Aborted" in said
    assert "kwire/cli/serve.py" in said


@pytest.mark.skipif(SYSTEMD_ANALYZE is None, reason="systemd-analyze is not installed")
def test_systemd_understands_the_unit(tmp_path: Path) -> None:
    """No unknown setting, and the exposure that systemd computes is at most 2 of 10."""
    unit = tmp_path / "kwire.service"
    text = (DEPLOY / "systemd" / "kwire.service").read_text(encoding="utf-8")
    unit.write_text(text.replace("/opt/kwire/bin/kwire", sys.executable), encoding="utf-8")
    verified = _systemd_analyze("verify", str(unit))
    assert (verified.returncode, verified.stderr) == (0, "")
    secure = _systemd_analyze("security", "--offline=yes", "--threshold=20", str(unit))
    assert secure.returncode == 0, secure.stdout


def test_the_unit_leaves_the_metrics_of_the_process(unit: dict[str, str]) -> None:
    """/metrics has process_* metrics only if the broker can read the boot time in /proc/stat."""
    assert unit["ProtectProc"] == "invisible"
    assert unit.get("ProcSubset", "all") == "all"


def _systemd_analyze(*arguments: str) -> subprocess.CompletedProcess[str]:
    assert SYSTEMD_ANALYZE is not None
    return subprocess.run(
        [SYSTEMD_ANALYZE, *arguments], capture_output=True, text=True, timeout=60, check=False
    )


# Kubernetes.


@pytest.fixture(scope="module")
def objects() -> dict[str, dict[str, Any]]:
    """The objects of the example by kind."""
    text = (DEPLOY / "kubernetes" / "kwire.yaml").read_text(encoding="utf-8")
    found = [one for one in yaml.safe_load_all(text) if one is not None]
    return {one["kind"]: one for one in found}


def test_the_kubernetes_example_runs_the_container(
    objects: dict[str, dict[str, Any]], instructions: list[tuple[str, str]], tmp_path: Path
) -> None:
    """With options that kwire has; clients are told the service's address."""
    pod = objects["StatefulSet"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert container["image"] == f"kwire:{__version__}"
    user, group = _last(instructions, "USER").split(":")
    assert (str(pod["securityContext"]["runAsUser"]), str(pod["securityContext"]["fsGroup"])) == (
        user,
        group,
    )
    [mount] = [mount for mount in container["volumeMounts"] if mount["name"] == "data"]
    assert mount["mountPath"] == DATA_DIR
    arguments = _locally(_entry_point(instructions), tmp_path)
    arguments += [word.replace("$(NAMESPACE)", "test") for word in container["args"]]
    with _serving(arguments) as (addresses, said):
        assert said == ""
        assert _told(addresses[0]) == ("kwire.test.svc", 9092)
        # The probe's listener: an address that is there before the service leads to the pod.
        assert _told(addresses[1]) == ("127.0.0.1", int(addresses[1].rpartition(":")[2]))
    command = container["livenessProbe"]["exec"]["command"]
    assert command[0] == "kwire"
    assert command[-1] == "127.0.0.1:19092"
    _parse(command)


def test_the_objects_of_the_kubernetes_example_agree(objects: dict[str, dict[str, Any]]) -> None:
    """The service and the policy find the pod, by its labels and its port."""
    stateful = objects["StatefulSet"]["spec"]
    labels = stateful["template"]["metadata"]["labels"]
    assert stateful["selector"]["matchLabels"] == labels
    assert objects["Service"]["spec"]["selector"] == labels
    assert objects["NetworkPolicy"]["spec"]["podSelector"]["matchLabels"] == labels
    assert stateful["serviceName"] == objects["Service"]["metadata"]["name"] == "kwire"
    assert stateful["replicas"] == 1
    [container] = stateful["template"]["spec"]["containers"]
    [port] = container["ports"]
    [served] = objects["Service"]["spec"]["ports"]
    [admitted] = objects["NetworkPolicy"]["spec"]["ingress"][0]["ports"]
    assert served["targetPort"] == port["name"]
    assert served["port"] == port["containerPort"] == admitted["port"] == 9092
    [claim] = stateful["volumeClaimTemplates"]
    assert claim["metadata"]["name"] in {mount["name"] for mount in container["volumeMounts"]}
