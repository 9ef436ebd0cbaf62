"""A kwire broker in a process of its own, for tests, demos and benchmarks.

The module needs only the standard library. The broker listens on 127.0.0.1, by default on a free
port. It ends with the ``with`` block. It also ends when the process that started it dies: its
standard input is a pipe that nobody writes to, and the end of the pipe stops the broker. With
``dies_with_parent`` Linux kills it, so it can't hang, nor outlive a forked copy of the parent.
"""

import os
import re
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType

from kwire.clock import steady_clock_ms

START_TIMEOUT_S = 60.0
STOP_TIMEOUT_S = 30.0

LOG_TAIL_LINES = 20

Start = tuple[Mapping[str, str], Sequence[int]]
"""Variables of the environment, and descriptors, that a process is started with."""

NOTHING: Start = ({}, ())

_READY = re.compile(
    r"kwire \S+ ready: (?P<address>\S+) data=.* cluster=(?P<cluster>\S+)"
    r"( http=(?P<http>\S+))?"
)
_PACKAGE_PARENT = Path(__file__).parents[2]


class BrokerFailed(Exception):
    """The broker ended or hung before it was ready; the text is the broker's output."""


class BrokerProcess:
    """``python -m kwire serve`` as a child process.

    ``settings`` are Kafka's, as for ``-o``; ``options`` are further options. ``bootstrap`` is
    ``host:port`` after the start.
    ``package_parent`` is the directory of the package ``kwire`` to run, by default this one's.
    ``http`` is the URL of its HTTP port, empty if it has none.
    ``log_file`` gets the log; by default it is a temporary file, which is removed with this object.
    ``prepare`` gives each process variables of its environment and descriptors, in a block in which
    the process is started.
    ``prefix`` is a command that runs the command of its arguments, such as ``ip netns exec NAME``.
    """

    def __init__(
        self,
        data_dir: Path | str,
        settings: Mapping[str, str] | None = None,
        listen: str = "127.0.0.1:0",
        package_parent: Path = _PACKAGE_PARENT,
        start_timeout_s: float = START_TIMEOUT_S,
        options: Sequence[str] = (),
        dies_with_parent: bool = False,
        log_file: Path | None = None,
        prefix: Sequence[str] = (),
        prepare: Callable[[], AbstractContextManager[Start]] | None = None,
    ) -> None:
        self.data_dir = Path(data_dir)
        self.bootstrap = ""
        self.cluster_id = self.http = ""
        self.settings = dict(settings or {})
        self._listen = listen
        self._package_parent = package_parent
        self._start_timeout_s = start_timeout_s
        self._options = options
        self._prefix = prefix
        self._prepare = prepare
        self._dies_with_parent = dies_with_parent
        self._process: subprocess.Popen[bytes] | None = None
        if log_file is None:
            handle, name = tempfile.mkstemp(prefix="kwire-", suffix=".log")
            os.close(handle)
            log_file = Path(name)
            weakref.finalize(self, log_file.unlink, missing_ok=True)
        self._log = log_file
        self._log.touch()

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> "BrokerProcess":
        """Start the broker and wait until it is ready; BrokerFailed if it ends or hangs."""
        # -P: the working directory may contain another kwire.
        environment = dict(os.environ)
        module = "kwire" if self._prepare is None else "kwire.testing.child"
        # Linux means the thread that has started a child when it looks for its parent.
        is_main_thread = threading.current_thread() is threading.main_thread()
        if self._dies_with_parent and sys.platform == "linux" and is_main_thread:
            module = "kwire.testing.child"
            environment["KWIRE_DIES_WITH"] = str(os.getpid())
        command = [
            *self._prefix,
            sys.executable,
            "-P",
            "-m",
            module,
            "serve",
            "--data-dir",
            str(self.data_dir),
        ]
        command += ["--listen", self._listen, *self._options]
        for name, value in self.settings.items():
            command += ["-o", f"{name}={value}"]
        paths = [str(self._package_parent), environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        environment["PYTHONSAFEPATH"] = "1"  # ignores a kwire in the working directory
        environment["KWIRE_ENDS_WITH_STDIN"] = "1"
        prepared = nullcontext(NOTHING) if self._prepare is None else self._prepare()
        with self._log.open("ab") as log, prepared as (more, descriptors):
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=environment | dict(more),
                pass_fds=descriptors,
            )
        line = self._first_line(self._process)
        ready = _READY.match(line)
        if ready is None:
            self._end_process(signal.SIGKILL)
            raise BrokerFailed(self.log().strip() or line)
        self.bootstrap = ready["address"]
        self.cluster_id = ready["cluster"]
        self.http = ready["http"] or ""
        return self

    def _first_line(self, process: subprocess.Popen[bytes]) -> str:
        """The first line that a process prints; BrokerFailed if it takes too long."""
        assert process.stdout is not None
        deadline_ms = steady_clock_ms() + self._start_timeout_s * 1000
        said = b""
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            while not said.endswith(b"\n"):
                if not selector.select(max(deadline_ms - steady_clock_ms(), 0) / 1000):
                    self._end_process(signal.SIGKILL)
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
        """End the broker with SIGKILL, as a crash would."""
        self._end_process(signal.SIGKILL)

    def stop(self) -> int:
        """End the broker with SIGTERM; returns its exit code."""
        return self._end_process(signal.SIGTERM)

    def restart(self) -> None:
        """Start the broker again on the same port, with the same data."""
        if self._process is not None:
            self.stop()
        self._listen = self.bootstrap
        self.start()

    def log(self) -> str:
        """Everything that the broker has logged so far."""
        return self._log.read_text(encoding="utf-8", errors="replace")

    def _end_process(self, signal_number: int) -> int:
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
