"""Three kwire brokers on a real etcd, each a process of its own, as one Kafka.

``python -m compat_tests.cluster`` runs them until Ctrl-C. With ``--run COMMAND …`` it runs this
command, which finds them in KWIRE_BOOTSTRAP, and ends with its exit code.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType, TracebackType

from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.testing.asking import Asker
from kwire.testing.process import BrokerFailed, BrokerProcess
from kwire.testing.waiting import wait_until
from tests.support.etcd import ELECTION_MS, Etcd

NODES = 3
_SETTINGS = {"broker.session.timeout.ms": "6000", "broker.heartbeat.interval.ms": "1000"}
"""Sessions that outlast the pauses of a busy machine."""


class KwireCluster:
    """Brokers 1, 2, … with their etcd; they run during the ``with`` block.

    ``listeners`` are those of each broker beside its plain one, as ``--listen`` takes them.
    ``election_ms`` is as in ``Etcd``.
    FileNotFoundError says in one line that there is no etcd.
    """

    def __init__(
        self,
        data_dir: Path | str,
        settings: Mapping[str, str] | None = None,
        nodes: int = NODES,
        first_port: int = 0,
        etcd_members: int = 1,
        listeners: Mapping[int, str] = MappingProxyType({}),
        election_ms: int = ELECTION_MS,
    ) -> None:
        self.etcd = Etcd(etcd_members, election_ms=election_ms)
        self.brokers: dict[int, BrokerProcess] = {}
        store = {"kwire.metadata.store": f"{self.etcd.url}/kwire"}
        for node_id in range(1, nodes + 1):
            own = {"node.id": str(node_id), **store, **_SETTINGS, **(settings or {})}
            port = first_port + node_id - 1 if first_port else 0
            directory = Path(data_dir) / str(node_id)
            more = ("--listen", listeners[node_id]) if node_id in listeners else ()
            listen = f"127.0.0.1:{port}"
            self.brokers[node_id] = BrokerProcess(directory, own, listen, options=more)
        self._listeners = listeners
        self._running = ExitStack()

    @property
    def bootstrap(self) -> str:
        """The addresses of all brokers' plain listeners."""
        return ",".join(map(self._plain, self.brokers.values()))

    def _plain(self, broker: BrokerProcess) -> str:
        """The address of a broker's plain listener, in whatever place it is told."""
        others = [listener.partition("://")[2] for listener in self._listeners.values()]
        return next(one for one in broker.bootstrap.split(",") if one not in others)

    def log(self) -> str:
        """Everything that the brokers have logged so far."""
        return "".join(broker.log() for broker in self.brokers.values())

    def __enter__(self) -> "KwireCluster":
        with ExitStack() as stack:
            stack.enter_context(self.etcd)
            for broker in self.brokers.values():
                stack.callback(broker.stop)
            # The first one makes the cluster: its directory may be that of a broker without etcd.
            first, *others = self.brokers.values()
            first.start()
            with ThreadPoolExecutor() as pool:
                list(pool.map(BrokerProcess.start, others))
            for broker in self.brokers.values():
                wait_until(lambda b=broker: self._is_seen_by(b), what="all brokers")  # type: ignore[misc]
            self._running = stack.pop_all()
        return self

    def _is_seen_by(self, broker: BrokerProcess) -> bool:
        asker, plain = Asker(), self._plain(broker)
        try:
            answer = asker.ask(plain, MetadataRequest(topics=[]), 12, MetadataResponse)
        finally:
            asker.close()
        return len(answer.brokers) == len(self.brokers)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._running.__exit__(kind, error, traceback)


def _run(command: Sequence[str], cluster: KwireCluster) -> int:
    """The exit code of a command that uses the cluster; 1 if a broker has found a bug in kwire."""
    environment = {**os.environ, "KWIRE_BOOTSTRAP": cluster.bootstrap}
    code = subprocess.run(command, env=environment, check=False).returncode
    bugs = [line for line in cluster.log().splitlines() if "bug in" in line]
    print("\n".join(bugs), end="\n" if bugs else "", file=sys.stderr)
    return code or int(bool(bugs))


def main() -> int:
    """Run a cluster until Ctrl-C, or as long as a command runs."""
    parser = argparse.ArgumentParser(description="run kwire brokers on an etcd until Ctrl-C")
    parser.add_argument("--nodes", type=int, default=NODES, help="how many brokers")
    parser.add_argument(
        "--port", type=int, default=0, help="of the first broker; 0 picks free ones"
    )
    parser.add_argument(
        "--run", nargs=argparse.REMAINDER, metavar="COMMAND", help="run this, not until Ctrl-C"
    )
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kwire-cluster-") as directory:
        try:
            with KwireCluster(directory, nodes=options.nodes, first_port=options.port) as cluster:
                print(f"kwire cluster ready: {cluster.bootstrap}", flush=True)
                if options.run:
                    return _run(options.run, cluster)
                signal.pause()
        except KeyboardInterrupt:
            print("kwire cluster stopped", flush=True)
        except (FileNotFoundError, BrokerFailed) as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
