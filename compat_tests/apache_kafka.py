"""A real Apache Kafka, to prove the tests against and to ask how it behaves.

``python -m compat_tests.apache_kafka`` (``make kafka``) runs one until Ctrl-C, with ``--nodes 3`` a
cluster of three. With ``--run COMMAND …`` it runs this command, which finds Kafka in
KWIRE_BOOTSTRAP, and ends with its exit code. ``kafka_version`` says which version. Combined KRaft
mode on free ports of 127.0.0.1, formatted by Kafka's own tool, with the settings that Kafka's own
``server.properties`` has for one broker.
"""

import argparse
import base64
import os
import signal
import socket
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType

from kafka import KafkaAdminClient
from kafka.errors import KafkaError

from compat_tests.java_tools import MissingTool, command, run_tool
from compat_tests.kafka_version import NAME
from kwire.testing.waiting import wait_until
from tests.support.ports import free_port

START_TIMEOUT_S = 180
ANSWERS_INTERVAL_S = 0.005
"""Short, for the bench measures how long a start takes."""
STOP_TIMEOUT_S = 60
TAIL_LINES = 20

# What Kafka's own start script gives its JVM.
JVM = (
    *("-Xmx1G", "-Xms1G", "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"),
    *("-XX:InitiatingHeapOccupancyPercent=35", "-XX:+ExplicitGCInvokesConcurrent"),
    *("-XX:MaxInlineLevel=15", "-Djava.awt.headless=true"),
)
QUICK_JVM = ("-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Djava.awt.headless=true")
"""For one that lives for some seconds: it starts with two thirds of the processor's time."""

CLUSTER_ID = "kwireCompatTestsAAAAAA"

_SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class KafkaFailed(Exception):
    """It ended instead of getting ready; the text is the end of what it logged."""


class ApacheKafka:
    """One broker; the same methods as ``kwire.testing.process.BrokerProcess``."""

    jvm: Sequence[str] = JVM
    """Options of Java. Tests that measure nothing set others."""

    def __init__(
        self,
        data_dir: Path | str,
        settings: Mapping[str, str] | None = None,
        listen: str = "127.0.0.1:0",
        quorum: Sequence[str] = ("--standalone",),
    ) -> None:
        self.data_dir = Path(data_dir)
        self.settings = dict(settings or {})
        port = int(listen.rpartition(":")[2]) or free_port()
        self.bootstrap = f"127.0.0.1:{port}"
        self.controller = f"127.0.0.1:{free_port()}"
        self.quorum = quorum
        """The options that tell Kafka's tool, when it formats, who the controllers are."""
        self.prefix: Sequence[str] = ()
        """A command that runs the command of its arguments, such as ``ip netns exec NAME``."""
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        assert self._process is not None
        return self._process.pid

    @property
    def log_dir(self) -> Path:
        """Where its partitions are."""
        return self.data_dir / "logs"

    def start(self) -> "ApacheKafka":
        """Format the directory if it is new, start, and wait until it answers.

        Raises KafkaFailed if it ends instead, MissingTool if Java or Maven is missing.
        """
        self.launch()
        self.wait_ready()
        return self

    def launch(self) -> None:
        """Format the directory if it is new, and start; ``wait_ready`` waits until it answers."""
        self.prepare()
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                [
                    *self.prefix,
                    *command("kafka.Kafka", str(self._properties_file), options=self.jvm),
                ],
                stdout=log,
                stderr=log,
            )

    def wait_ready(self) -> None:
        """Wait until it answers; KafkaFailed if it ends instead."""
        try:
            wait_until(
                self._answers,
                timeout_s=START_TIMEOUT_S,
                what="Apache Kafka to answer",
                interval_s=ANSWERS_INTERVAL_S,
            )
        except BaseException:
            self.kill()
            raise

    def prepare(self) -> None:
        """Write its settings, and format the directory if it is new."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        self._properties_file.write_text(self._properties(), encoding="utf-8")
        if not self.log_dir.exists():
            arguments = ("-t", CLUSTER_ID, "-c", str(self._properties_file))
            run_tool("kafka.tools.StorageTool", "format", *arguments, *self.quorum)

    def log(self) -> str:
        """What it has logged so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def _properties_file(self) -> Path:
        return self.data_dir / "server.properties"

    @property
    def _log(self) -> Path:
        return self.data_dir / "kafka.log"

    def _properties(self) -> str:
        host_port = self.bootstrap
        settings = {
            **_SETTINGS,
            "log.dirs": str(self.log_dir),
            "listeners": f"PLAINTEXT://{host_port},CONTROLLER://{self.controller}",
            "advertised.listeners": f"PLAINTEXT://{host_port}",
            "controller.quorum.bootstrap.servers": self.controller,
            **self.settings,
        }
        return "".join(f"{name}={value}\n" for name, value in settings.items())

    def _raise_if_ended(self) -> None:
        assert self._process is not None
        if self._process.poll() is not None:
            tail = "\n".join(self.log().splitlines()[-TAIL_LINES:])
            raise KafkaFailed(f"Apache Kafka ended instead of getting ready:\n{tail}")

    def _answers(self) -> bool:
        self._raise_if_ended()
        try:
            # The client waits longer and longer between two attempts.
            host, _, port = self.bootstrap.rpartition(":")
            socket.create_connection((host, int(port))).close()
            KafkaAdminClient(bootstrap_servers=self.bootstrap, request_timeout_ms=5000).close()
        except (KafkaError, OSError):
            return False
        return True

    def kill(self) -> None:
        """End it with SIGKILL."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End it with SIGTERM; its exit code."""
        return self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Start it again on the same port, with the same data."""
        if self._process is not None:
            self.stop()
        self.start()

    def _end(self, signal_number: int) -> int:
        process, self._process = self._process, None
        if process is None:
            return 0
        process.send_signal(signal_number)
        try:
            return process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def __enter__(self) -> "ApacheKafka":
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()


class KafkaCluster:
    """Several of them as one cluster, each broker and controller; for the ``with`` block."""

    def __init__(
        self,
        data_dir: Path | str,
        settings: Mapping[str, str] | None = None,
        nodes: int = 3,
        first_port: int = 0,
    ) -> None:
        self._running = ExitStack()
        self.brokers: dict[int, ApacheKafka] = {}
        for node_id in range(1, nodes + 1):
            port = first_port + node_id - 1 if first_port else 0
            own = {"node.id": str(node_id), **(settings or {})}
            self.brokers[node_id] = ApacheKafka(
                Path(data_dir) / str(node_id), own, f"127.0.0.1:{port}"
            )

    def _form_quorum(self) -> None:
        voters = [
            f"{node_id}@{broker.controller}:{_new_id()}" for node_id, broker in self.brokers.items()
        ]
        controllers = ",".join(broker.controller for broker in self.brokers.values())
        for broker in self.brokers.values():
            broker.quorum = ("--initial-controllers", ",".join(voters))
            broker.settings.setdefault("controller.quorum.bootstrap.servers", controllers)

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers."""
        return ",".join(broker.bootstrap for broker in self.brokers.values())

    def __enter__(self) -> "KafkaCluster":
        self._form_quorum()
        with ExitStack() as stack:
            for broker in self.brokers.values():
                broker.launch()
                stack.callback(broker.kill)  # no controller is missed by those that go later
            for broker in self.brokers.values():
                broker.wait_ready()
            self._running = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._running.close()


def _new_id() -> str:
    """A directory id in Kafka's notation; a dash at the beginning would look like an option."""
    return "A" + base64.urlsafe_b64encode(uuid.uuid4().bytes).decode()[1:22]


def _setting(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark:
        raise argparse.ArgumentTypeError(f"{text}: write NAME=VALUE")
    return name, value


def _run(command: Sequence[str], bootstrap: str) -> int:
    """The exit code of a command that uses the broker."""
    environment = {**os.environ, "KWIRE_BOOTSTRAP": bootstrap}
    return subprocess.run(command, env=environment, check=False).returncode


def main() -> int:
    """Run one, or a cluster, until Ctrl-C, or as long as a command runs."""
    parser = argparse.ArgumentParser(description=f"run a real {NAME} until Ctrl-C")
    parser.add_argument("--port", type=int, default=0, help="the port; 0 picks a free one")
    parser.add_argument("--nodes", type=int, default=1, help="how many brokers")
    parser.add_argument("--data-dir", type=Path, help="where to keep data; else it is temporary")
    parser.add_argument(
        "--set", type=_setting, action="append", default=[], metavar="NAME=VALUE", help="a setting"
    )
    parser.add_argument(
        "--run", nargs=argparse.REMAINDER, metavar="COMMAND", help="run this, not until Ctrl-C"
    )
    options = parser.parse_args()
    settings = dict(options.set)
    with tempfile.TemporaryDirectory(prefix="apache-kafka-") as temporary:
        data_dir = options.data_dir or temporary
        broker: ApacheKafka | KafkaCluster
        if options.nodes > 1:
            broker = KafkaCluster(data_dir, settings, options.nodes, options.port)
        else:
            broker = ApacheKafka(data_dir, settings, f"127.0.0.1:{options.port}")
        try:
            with broker:
                print(f"{NAME} ready: {broker.bootstrap}", flush=True)
                if options.run:
                    return _run(options.run, broker.bootstrap)
                signal.pause()
        except KeyboardInterrupt:
            print("Apache Kafka stopped", flush=True)
        except (MissingTool, KafkaFailed) as error:
            raise SystemExit(str(error)) from error
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
