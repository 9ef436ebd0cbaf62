"""A kwire in a process of its own, for tests, demos and benchmarks.

Needs the standard library alone. The broker listens on 127.0.0.1, on a free port unless told
otherwise. It ends with the ``with`` block, and also when the process that started it dies without
a word: its standard input is a pipe that nobody writes to, and the end of the pipe ends the broker.
"""

import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0

LOG_TAIL_LINES = 20

_READY = re.compile(
    r"kwire (?P<version>\S+) ready: (?P<address>\S+) data=.* cluster=(?P<cluster>\S+)"
)
_PACKAGE_PARENT = Path(__file__).parents[2]


class BrokerFailed(Exception):
    """The broker ended instead of getting ready, or hung; the text is what it said."""


class BrokerProcess:
    """``python -m kwire serve`` as a child process.

    ``settings`` are Kafka's, as for ``-o``. ``bootstrap`` is ``host:port`` once it has started.
    ``package_parent`` is where its ``kwire`` lies: beside this file, unless another one is meant.
    ``version`` is what it says it is: ``0.1.0``, or ``0.1.0+compiled``.
    """

    def __init__(
        self,
        data_dir: Path | str,
        settings: Mapping[str, str] | None = None,
        listen: str = "127.0.0.1:0",
        package_parent: Path = _PACKAGE_PARENT,
        start_timeout_s: float = START_TIMEOUT_S,
    ) -> None:
        self.data_dir = Path(data_dir)
        self.bootstrap = ""
        self.cluster_id = ""
        self.version = ""
        self._settings = dict(settings or {})
        self._listen = listen
        self._package_parent = package_parent
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        handle, name = tempfile.mkstemp(prefix="kwire-", suffix=".log")
        os.close(handle)
        self._log = Path(name)
        weakref.finalize(self, self._log.unlink, missing_ok=True)

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> "BrokerProcess":
        """Start it and wait until it is ready; BrokerFailed if it ends instead, or hangs."""
        # -P: the directory it is started in may have another kwire.
        command = [sys.executable, "-P", "-m", "kwire", "serve", "--data-dir", str(self.data_dir)]
        command += ["--listen", self._listen]
        for name, value in self._settings.items():
            command += ["-o", f"{name}={value}"]
        environment = dict(os.environ)
        paths = [str(self._package_parent), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        environment["PYTHONSAFEPATH"] = "1"  # the kwire of the working directory doesn't come first
        environment["KWIRE_ENDS_WITH_STDIN"] = "1"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment,
            )
        line = self._first_line(self._process)
        ready = _READY.match(line)
        if ready is None:
            self._end(signal.SIGKILL)
            raise BrokerFailed(self.log().strip() or line)
        self.bootstrap = ready["address"]
        self.cluster_id = ready["cluster"]
        self.version = ready["version"]
        return self

    def _first_line(self, process: subprocess.Popen[bytes]) -> str:
        """What a process prints first; BrokerFailed if it takes too long."""
        assert process.stdout is not None
        deadline = time.monotonic() + self._start_timeout_s
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not said.endswith(b"\n"):
                if not selector.select(max(deadline - time.monotonic(), 0)):
                    self._end(signal.SIGKILL)
                    tail = "\n".join(self.log().splitlines()[-LOG_TAIL_LINES:])
                    raise BrokerFailed(
                        f"the broker on {self.data_dir} was not ready after "
                        f"{self._start_timeout_s:g} s; the end of its log:\n{tail or '(empty)'}"
                    )
                some = os.read(process.stdout.fileno(), 4096)
                if not some:
                    process.wait(STOP_TIMEOUT_S)
                    break
                said += some
        return said.decode(errors="replace")

    def kill(self) -> None:
        """End it with SIGKILL, as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """End it with SIGTERM; its exit code."""
        return self._end(signal.SIGTERM)

    def restart(self) -> None:
        """Start it again on the same port, with the same data."""
        if self._process is not None:
            self.stop()
        self._listen = self.bootstrap
        self.start()

    def log(self) -> str:
        """What it has logged so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

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
        finally:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.stdout.close()

    def __enter__(self) -> "BrokerProcess":
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.stop()
