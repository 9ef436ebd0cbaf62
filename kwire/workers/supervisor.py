"""The supervisor: it starts the workers, serves them the metadata, and starts dead ones again.

Rules:

- A worker that ends is started again at once, and after a pause if it has lived for a short time
  only and has ended shortly before, too.
- If a worker ends ``MOST_DEATHS`` times in ``DEATHS_WITHIN_S``, or can't start the first time, the
  supervisor stops all workers. It gives the reason in one line.
- A worker that gives no sign of life for ``broker.session.timeout.ms`` is ended by SIGKILL, and
  started again like any that has ended.
- If the template ends, no worker can be started again. The supervisor ends then, and its workers
  stop with it. The command starts over, if all workers have served (``TemplateEnded``).
- A stop waits for every worker, however long it takes.
"""

import json
import logging
import os
import signal
import socket
from collections import deque
from contextlib import suppress
from functools import partial
from typing import Any

import trio

from kwire.metadata.store import MetadataStore
from kwire.metadata.supervised.server import serve_worker
from kwire.metadata.supervised.turns import Turns
from kwire.workers.directory import WorkersError
from kwire.workers.messages import MOST_BYTES, Ends

log = logging.getLogger(__name__)

MOST_DEATHS = 5
DEATHS_WITHIN_S = 30.0
FIRST_PAUSE_S = 0.1
"""The pause before the second start in a row; each further one is twice as long."""

SHORT_LIFE_S = 5.0
"""A worker that has lived for longer is started at once: its start didn't cause its end."""


class TemplateEnded(WorkersError):
    """The process that starts workers has ended while the workers served: a new start helps."""


class SupervisedWorker:
    """A worker as its supervisor sees it.

    ``ready`` is the message that it sent when it was ready, None before. ``failure`` is the reason
    of its end, if it has sent one. ``is_running`` says whether it has a process.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self.ready: dict[str, Any] | None = None
        self.failure = ""
        self.is_running = False
        self.began_s = 0.0
        self._deaths_s: deque[float] = deque(maxlen=MOST_DEATHS)

    def note_death(self, now_s: float) -> int:
        """Note that the process has ended; returns how often it has ended lately."""
        self.is_running = False
        self._deaths_s.append(now_s)
        return sum(now_s - at_s <= DEATHS_WITHIN_S for at_s in self._deaths_s)


class Supervisor:
    """The supervisor of ``count`` workers, which the template forks."""

    def __init__(self, ends: Ends, store: MetadataStore, count: int) -> None:
        self.workers = [SupervisedWorker(number) for number in range(1, count + 1)]
        self.failure = ""
        self._ends = ends
        self._store = store
        self._turns = Turns()
        self._is_ready = False
        self.is_stopping = False
        self._can_start_over = False
        self._ended = trio.Event()
        self._nursery: trio.Nursery
        self._status: trio.TaskStatus[None]

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Supervise until ``stop``; ``task_status.started`` is called when all workers are ready.

        A cancelled task has the effect of ``stop``: it ends when every worker has ended.
        Raises WorkersError when a worker keeps ending or can't start, and TemplateEnded.
        """
        self._status = task_status
        async with trio.open_nursery() as outer:
            outer.start_soon(self._stop_when_cancelled)
            with trio.CancelScope(shield=True):
                await self._supervise()
            outer.cancel_scope.cancel()
        if self.failure:
            raise (TemplateEnded if self._can_start_over else WorkersError)(self.failure)

    async def _stop_when_cancelled(self) -> None:
        try:
            await trio.sleep_forever()
        finally:
            self.stop()

    async def _supervise(self) -> None:
        async with trio.open_nursery() as self._nursery:
            self._nursery.start_soon(self._watch_template)
            self._nursery.start_soon(self._listen)
            if not self.is_stopping:
                self._order(b"bind\n")
            await self._ended.wait()
            self._nursery.cancel_scope.cancel()

    def stop(self) -> None:
        """Stop every worker; ``run`` returns when the last one has ended."""
        if not self.is_stopping:
            self.is_stopping = True
            self._order(b"stop\n")
            self._look_for_end()

    def _order(self, command: bytes, *files: int) -> None:
        """Send a command to the template, with open files."""
        with suppress(OSError):  # the template has ended, which ``_watch_template`` notices
            if files:
                socket.send_fds(self._ends.control, [command], files)
            else:
                self._ends.control.sendall(command)

    def _fail(self, why: str) -> None:
        self.failure = self.failure or why
        self.stop()

    def _look_for_end(self) -> None:
        if self.is_stopping and not any(worker.is_running for worker in self.workers):
            self._ended.set()

    async def _watch_template(self) -> None:
        """Wait for the end of the template, without which no worker can start again."""
        stream = _stream(self._ends.life)
        with suppress(trio.BrokenResourceError):
            await stream.receive_some(1)
        self.failure = "the process that starts workers has ended"
        self._can_start_over = self._is_ready and not self.is_stopping
        self._ended.set()

    async def _listen(self) -> None:
        stream = _stream(self._ends.control)
        rest = b""
        with suppress(trio.BrokenResourceError):  # the template was killed before it had read all
            while received := await stream.receive_some(MOST_BYTES):
                *lines, rest = (rest + received).split(b"\n")
                for line in lines:
                    self._parse_message(json.loads(line))

    def _parse_message(self, message: dict[str, Any]) -> None:
        if "bound" in message:
            for worker in () if self.is_stopping else self.workers:
                self._start(worker)
            return
        worker = self.workers[message["worker"] - 1]
        if "ready" in message:
            self._note_ready(worker, message)
        elif "failed" in message:
            worker.failure = message["failed"]
            if not worker.is_running:
                self._fail(f"worker {worker.number}: {worker.failure}")
        else:
            self._note_end(worker, message["ended"])

    def _start(self, worker: SupervisedWorker) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self._order(f"start {worker.number}\n".encode(), theirs.fileno())
        worker.is_running = True
        worker.failure = ""
        worker.began_s = trio.current_time()
        hangs = partial(self.end, worker)
        self._nursery.start_soon(serve_worker, _stream(ours), self._store, self._turns, hangs)

    def end(self, worker: SupervisedWorker, silent_ms: int) -> None:
        """End a worker that hangs; not during a stop, which may take as long as it needs."""
        if not self.is_stopping:
            worker.failure = (
                f"it gave no sign of life for {silent_ms / 1000:g} s (broker.session.timeout.ms)"
            )
            self._order(f"kill {worker.number}\n".encode())

    def _note_ready(self, worker: SupervisedWorker, message: dict[str, Any]) -> None:
        worker.ready = message
        if self._is_ready:
            took_s = trio.current_time() - worker.began_s
            log.info("worker %d serves again after %.2f s", worker.number, took_s)
        elif all(one.ready for one in self.workers):
            self._is_ready = True
            self._status.started()

    def _note_end(self, worker: SupervisedWorker, status: int) -> None:
        now_s = trio.current_time()
        deaths = worker.note_death(now_s)
        why = worker.failure or _how(status)
        if self.is_stopping:
            if status:
                self.failure = self.failure or f"worker {worker.number}: {why}"
            self._look_for_end()
        elif not self._is_ready:
            self._fail(f"worker {worker.number}: {why}")
        elif deaths >= MOST_DEATHS:
            self._fail(
                f"worker {worker.number} has ended {deaths} times within {DEATHS_WITHIN_S:.0f} s, "
                f"lastly: {why}; its log lines say more"
            )
        else:
            is_again = deaths > 1 and now_s - worker.began_s < SHORT_LIFE_S
            pause_s = FIRST_PAUSE_S * (2 ** (deaths - 2)) if is_again else 0.0
            self._nursery.start_soon(self._start_again, worker, pause_s, why)

    async def _start_again(self, worker: SupervisedWorker, pause_s: float, why: str) -> None:
        log.warning("worker %d: %s; starting it again", worker.number, why)
        await trio.sleep(pause_s)
        if not self.is_stopping:
            self._start(worker)


def _how(status: int) -> str:
    """A text about the end of a process, by its status of wait(2)."""
    code = os.waitstatus_to_exitcode(status)
    if code >= 0:
        return f"it ended with exit code {code}"
    return f"it was ended by {signal.Signals(-code).name}"


def _stream(raw: socket.socket) -> trio.SocketStream:
    return trio.SocketStream(trio.socket.from_stdlib_socket(raw))
