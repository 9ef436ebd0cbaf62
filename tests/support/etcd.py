"""A real etcd for tests and trials, as a process of its own: ``python -m tests.support.etcd``.

The program is ``etcd`` on PATH, else the one that ``make etcd`` brings into ``.cache/etcd``. The
data is in a temporary directory and isn't synced to the disk.
"""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from kwire.testing.waiting import WaitTimeout, wait_until
from tests.support.ports import free_port

CACHED = Path(__file__).parents[2] / ".cache" / "etcd" / "etcd"
MISSING = "there is no etcd: install it (Debian: apt install etcd-server), or run make etcd once"
START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 10.0
ELECTION_MS = 1000
"""The default of etcd's ``--election-timeout``."""
MOST_BYTES = 1 << 30
"""What etcd may store. It maps far more at once, which a limit of addresses may forbid."""


def find_etcd() -> str | None:
    """The path of an etcd to run; None if there is none."""
    return shutil.which("etcd") or (str(CACHED) if CACHED.exists() else None)


class EtcdMember:
    """One etcd process of a cluster."""

    def __init__(
        self, program: str, directory: Path, options: Sequence[str], endpoint: str
    ) -> None:
        self.endpoint = endpoint
        self._command = [program, "--data-dir", str(directory), *options]
        self._log = directory.with_suffix(".log")
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The id of the running process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start the process; ``wait_ready`` waits for it."""
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)

    def wait_ready(self) -> None:
        """Wait until the member answers as part of a cluster with a leader."""
        try:
            wait_until(self._is_decided, timeout_s=START_TIMEOUT_S, what="etcd's start")
            if self._is_healthy():
                return
        except WaitTimeout:
            pass
        raise RuntimeError(f"etcd doesn't start:\n{self._log.read_text()[-2000:]}")

    def _is_decided(self) -> bool:
        """Whether the process answers, or has ended and never will."""
        process = self._process
        return process is None or process.poll() is not None or self._is_healthy()

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://{self.endpoint}/health", timeout=1) as answer:
                return b"true" in answer.read()
        except (OSError, urllib.error.URLError):
            return False

    @property
    def is_leader(self) -> bool:
        """Whether this member leads its cluster."""
        found = self._status()
        return bool(found.get("leader") == found["header"]["member_id"])

    @property
    def term(self) -> int:
        """The term of the leader that this member follows, or is; 0 while it knows none."""
        found = self._status()
        return int(found["raftTerm"]) if int(found.get("leader", 0)) else 0

    def _status(self) -> dict[str, Any]:
        request = urllib.request.Request(
            f"http://{self.endpoint}/v3/maintenance/status", b"{}", method="POST"
        )
        with urllib.request.urlopen(request, timeout=2) as answer:
            found: dict[str, Any] = json.load(answer)
        return found

    def pause(self) -> None:
        """Stop the process with SIGSTOP: it answers nothing, and its connections stay."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let a paused process go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """End the process with SIGKILL; ``start`` starts it again with its data."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(STOP_TIMEOUT_S)


class Etcd:
    """An etcd cluster of this many members; it ends with the ``with`` block.

    ``tls`` are the files of a certificate and its key: clients speak TLS and show the same
    certificate. Then nothing waits for its start. ``host`` is the address where all members listen.
    ``election_ms`` is etcd's ``--election-timeout``, with a tenth of it between two heartbeats.
    """

    def __init__(
        self,
        members: int = 1,
        program: str | None = None,
        port: int = 0,
        tls: tuple[str, str] | None = None,
        host: str = "127.0.0.1",
        election_ms: int = ELECTION_MS,
    ) -> None:
        found = program or find_etcd()
        if found is None:
            raise FileNotFoundError(MISSING)
        version = subprocess.check_output([found, "--version"], text=True)
        self._is_tls = tls is not None
        memory = Path("/dev/shm")
        place = memory if os.access(memory, os.W_OK) else None
        self._directory = Path(tempfile.mkdtemp(prefix="kwire-etcd-", dir=place))
        client_ports = [port or free_port(), *(free_port() for _ in range(members - 1))]
        peer_ports = [free_port() for _ in range(members)]
        names = [f"m{number}" for number in range(members)]
        peers = [f"http://{host}:{peer}" for peer in peer_ports]
        together = ",".join(f"{name}={peer}" for name, peer in zip(names, peers, strict=True))
        self.members = []
        for name, client_port, peer in zip(names, client_ports, peers, strict=True):
            client = f"{'https' if tls else 'http'}://{host}:{client_port}"
            options = ["--name", name, "--listen-client-urls", client]
            options += ["--advertise-client-urls", client, "--listen-peer-urls", peer]
            options += ["--initial-advertise-peer-urls", peer, "--initial-cluster", together]
            options += ["--log-level", "warn", "--unsafe-no-fsync"]
            options += ["--quota-backend-bytes", str(MOST_BYTES)]
            options += ["--election-timeout", str(election_ms)]
            options += ["--heartbeat-interval", str(election_ms // 10)]
            if tls is not None:
                options += ["--cert-file", tls[0], "--key-file", tls[1], "--client-cert-auth"]
                options += ["--trusted-ca-file", tls[0]]
            if "3.4" in version:
                options.remove("--unsafe-no-fsync")  # 3.4 always syncs
            directory = self._directory / name
            self.members.append(EtcdMember(found, directory, options, f"{host}:{client_port}"))

    @property
    def url(self) -> str:
        """The value of ``kwire.metadata.store``, without a prefix."""
        scheme = "etcds" if self._is_tls else "etcd"
        return f"{scheme}://{','.join(member.endpoint for member in self.members)}"

    @property
    def leader(self) -> EtcdMember:
        """The member that leads the cluster."""
        return next(member for member in self.members if member.is_leader)

    def __enter__(self) -> "Etcd":
        try:
            for member in self.members:
                member.start()
            for member in () if self._is_tls else self.members:
                member.wait_ready()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End all members and remove their data."""
        for member in self.members:
            member.kill()
        shutil.rmtree(self._directory, ignore_errors=True)


def main(arguments: Sequence[str]) -> int:
    """Run an etcd until it is interrupted; the argument is its port, 2379 without one."""
    port = int(arguments[0]) if arguments else 2379
    if _is_taken(port):
        print(
            f"port {port} is taken, perhaps by an etcd that runs already; another one: "
            f"make etcd PORT={port + 1}",
            file=sys.stderr,
        )
        return 1
    for by in (signal.SIGTERM, signal.SIGINT):  # a shell has a program in its background ignore it
        signal.signal(by, signal.default_int_handler)
    try:
        with Etcd(port=port) as etcd:
            print(f"etcd ready: kwire.metadata.store={etcd.url}/kwire", flush=True)
            while True:
                signal.pause()
    except FileNotFoundError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 0


def _is_taken(port: int) -> bool:
    """Whether somebody listens on this port of 127.0.0.1."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
