"""The process that forks workers: it has loaded all code of a broker, and does nothing else.

A forked worker needs no imports, which take most of the time of a start. It shares the memory of
the code with the other workers and the supervisor. The template has one thread and no event loop,
so a fork copies no lock and no task.

Rules:

- The supervisor sends lines over a socket: ``bind``, ``start N`` with the worker's end of its
  connection to the supervisor, ``kill N``, ``stop``. The end of the socket ends the template.
- Template and workers send JSON objects in lines: ``{"worker": 2, "ready": …}``, ``failed``,
  ``ended`` with the status of wait(2), and ``bound``.
- The template binds the ports of all workers and keeps them. So a client that connects while a
  worker starts again waits, and no other program gets the port.
- Signals of a terminal reach the supervisor only: template and workers are a process group of their
  own. A worker stops at SIGTERM. The signal is blocked until the worker can take it.
"""

import gc
import json
import logging
import os
import select
import signal
import socket
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from kwire.config.broker import BrokerConfig
from kwire.dispatch.preloading import preload
from kwire.server import StartError, bind
from kwire.workers.messages import MOST_BYTES, Ends, Ways
from kwire.workers.worker import Worker

log = logging.getLogger(__name__)

MOST_FILES = 16


def fork_template(configs: Sequence[BrokerConfig], locks: Mapping[Path, int], ways: Ways) -> Ends:
    """Fork the template. This process must have one thread and no event loop."""
    _load(with_http=configs[0].http_address() is not None)
    control, own_control = socket.socketpair()
    life, own_life = socket.socketpair()
    _flush()
    pid = os.fork()
    if pid == 0:
        try:
            control.close()
            life.close()
            Template(own_control, own_life, configs, locks, ways).run()
        except BaseException:
            log.exception("the process that starts workers has failed")
        finally:
            os._exit(1)
    own_control.close()
    own_life.close()
    return Ends(control, life, pid)


def end_template(ends: Ends) -> None:
    """End the template, whose workers have ended, and wait for it."""
    ends.control.close()
    os.waitpid(ends.pid, 0)


def _flush() -> None:
    """Flush the output buffers, so that no fork writes their content a second time."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError):
            stream.flush()


class Template:
    """The template's process."""

    def __init__(
        self,
        control: socket.socket,
        life: socket.socket,
        configs: Sequence[BrokerConfig],
        locks: Mapping[Path, int],
        ways: Ways,
    ) -> None:
        self._control = control
        self._life = life
        self._configs = configs
        self._locks = locks
        self._ways = ways
        self._bound: list[list[socket.socket]] = []
        self._numbers: dict[int, int] = {}
        self._received = b""
        self._connections: deque[int] = deque()

    def run(self) -> NoReturn:
        """Carry out the supervisor's commands, until the supervisor has ended."""
        os.setpgid(0, 0)
        for number in (signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
        awake, wake = socket.socketpair()
        self.waking = (awake, wake)
        wake.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(wake.fileno())
        waiting = select.poll()  # ``select.select`` takes no descriptor beyond 1,023
        for one in (self._control, awake):
            waiting.register(one, select.POLLIN)
        while True:
            readable = {fd for fd, _ in waiting.poll()}
            if awake.fileno() in readable:
                awake.recv(MOST_BYTES)
                self._reap()
            if self._control.fileno() in readable:
                self.obey()

    def obey(self) -> None:
        """Carry out the commands that have come; ends the process if the supervisor has ended."""
        try:
            received, files, _, _ = socket.recv_fds(self._control, MOST_BYTES, MOST_FILES)
        except ConnectionResetError:  # the supervisor was killed before it had read everything
            os._exit(0)
        if not received:
            os._exit(0)
        self._connections += files
        *lines, self._received = (self._received + received).split(b"\n")
        for line in lines:
            command, _, number = line.decode().partition(" ")
            if command == "bind":
                self._bind()
            elif command == "start":
                self._start(int(number))
            elif command == "kill":
                self._kill(int(number))
            elif command == "stop":
                self._stop()

    def _bind(self) -> None:
        for number, config in enumerate(self._configs, 1):
            try:
                self._bound.append([bind(listener, config) for listener in config.listeners()])
            except StartError as error:
                self._send_message({"worker": number, "failed": str(error)})
                return
        self._send_message({"worker": 0, "bound": True})

    def _start(self, number: int) -> None:
        connection = socket.socket(fileno=self._connections.popleft())
        _flush()
        pid = os.fork()
        if pid == 0:
            try:
                self._become(number, connection)
            except BaseException:
                log.exception("worker %d has failed", number)
            finally:
                os._exit(1)
        connection.close()
        self._numbers[pid] = number

    def _become(self, number: int, connection: socket.socket) -> None:
        """Be a worker; this never returns."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for closed in (self._life, *self.waking):
            closed.close()
        for other, sockets in enumerate(self._bound, 1):
            for one in sockets if other != number else ():
                one.close()
        self._ways.begin_log(number)
        worker = Worker(self._configs[number - 1], self._bound[number - 1], connection, self._locks)
        code = worker.run(
            self._ways, lambda message: self._send_message({"worker": number, **message})
        )
        self._ways.leave(code)

    def _stop(self) -> None:
        """Accept no more clients, and stop the workers."""
        for sockets in self._bound:
            for one in sockets:
                one.close()
        for pid in self._numbers:
            os.kill(pid, signal.SIGTERM)

    def _kill(self, number: int) -> None:
        """End a worker, unless it has ended; SIGKILL also ends a process that is stopped."""
        for pid, known in self._numbers.items():
            if known == number:
                os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        """Tell the supervisor of workers that have ended."""
        while self._numbers:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            self._send_message({"worker": self._numbers.pop(pid), "ended": status})

    def _send_message(self, message: dict[str, Any]) -> None:
        with suppress(OSError):  # the supervisor has ended, and so will this process
            self._control.sendall(json.dumps(message).encode() + b"\n")


def _load(*, with_http: bool) -> None:
    """Import the modules that workers need later, and keep the collector from their objects.

    There is no collection before the fork. Otherwise each process would fill the gaps with objects
    of its own, and so get its own copy of the pages around them.
    """
    preload()
    import_module("encodings.idna")  # Python imports it for the first address, a megabyte with it
    if with_http:
        with suppress(ImportError):  # a worker that needs such a module reports that it is missing
            import kwire.web.app
            import kwire.web.connections
            import kwire.web.page.sampler  # noqa: F401
    gc.freeze()
