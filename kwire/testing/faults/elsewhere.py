"""The faults of a broker in a process of its own: planned here, and acted out there.

Rules:

- Each process of the broker has a pipe of its own. What a test plans goes there, and is answered
  when it is in force; how often a fault has happened comes back before the client sees anything of
  it. So ``count`` is never behind what a client has seen.
- A process begins with the faults that are planned: they outlive its restarts and its kills, and
  keep their counts. ``serve_faults`` runs in it.
- The pipe is the process's only door for faults. ``kwire serve`` has none.
"""

import os
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import count
from multiprocessing.connection import Connection, Pipe
from typing import Any

from kwire.testing.faults.planning import Fault, Faults, Plan
from kwire.testing.process import BrokerFailed, Start

DESCRIPTOR = "KWIRE_FAULTS"
"""The environment's variable with the descriptor of the process's end of the pipe."""

ANSWER_S = 10.0


class FaultsElsewhere(Faults):
    """The faults of a broker in another process."""

    def __init__(self) -> None:
        super().__init__()
        self._numbers = count()
        self._by_number: dict[int, Fault] = {}
        self._pipe: _Pipe | None = None

    @contextmanager
    def of_a_process(self) -> Iterator[Start]:
        """Start a process in the block, which begins with the faults that are planned."""
        pipe = _Pipe(self._by_number)
        for number, fault in list(self._by_number.items()):
            if fault.is_removed:
                del self._by_number[number]
            else:
                pipe.send("plan", number, fault.plan, fault.count)
        pipe.send("begin")
        self._pipe = pipe
        try:
            yield {DESCRIPTOR: str(pipe.theirs.fileno())}, (pipe.theirs.fileno(),)
        finally:
            pipe.theirs.close()

    def plan(self, plan: Plan) -> Fault:
        """Plan a fault; returns when it is in force."""
        number = next(self._numbers)

        def synchronize() -> None:
            if self._pipe is not None:
                self._pipe.ask("remove" if fault.is_removed else "look", number)

        fault = Fault(plan, synchronize)
        self._by_number[number] = fault
        if self._pipe is not None and not self._pipe.ask("plan", number, plan, 0):
            raise BrokerFailed(f"the broker hangs, and takes no fault: {plan.text}({plan.where})")
        return self.keep(fault)


class _Pipe:
    """The pipe to one process, and the thread that reads from it."""

    def __init__(self, faults: Mapping[int, Fault]) -> None:
        self._ours, self.theirs = Pipe()
        self._faults = faults
        self._lock = threading.Lock()
        self._answered = threading.Condition()
        self._asked = self._answers = 0
        self._has_ended = False
        threading.Thread(target=self._read, name="kwire faults", daemon=True).start()

    def send(self, *message: Any) -> None:
        """Tell the process something; it isn't there to hear it if it has ended."""
        with suppress(OSError):
            self._ours.send(message)

    def ask(self, *message: Any) -> bool:
        """Wait until the process has done something, or has ended; False if it hangs."""
        with self._lock:
            self.send(*message)
            self._asked += 1
            wanted = self._asked
        with self._answered:
            return self._answered.wait_for(
                lambda: self._has_ended or self._answers >= wanted, ANSWER_S
            )

    def _read(self) -> None:
        try:
            while True:
                message = self._ours.recv()
                if message is None:
                    with self._answered:
                        self._answers += 1
                        self._answered.notify_all()
                else:
                    number, how_often = message
                    self._faults[number].happened(how_often)
        except (EOFError, OSError):
            with self._answered:
                self._has_ended = True
                self._answered.notify_all()
            self._ours.close()


def serve_faults(descriptor: int) -> Faults:
    """In the process of the broker: the faults that the test plans, from now on."""
    os.set_inheritable(descriptor, False)
    pipe = Connection(descriptor)
    one_at_a_time = threading.Lock()
    faults = Faults()
    planned: dict[int, Fault] = {}

    def tell(message: object) -> None:
        with one_at_a_time, suppress(OSError):
            pipe.send(message)

    def obey(what: str, *arguments: Any) -> None:
        if what == "plan":
            number, plan, how_often = arguments
            fault = Fault(plan, happens=lambda count: tell((number, count)))
            fault.happened(how_often)
            planned[number] = faults.keep(fault)
        elif what == "remove":
            planned[arguments[0]].remove()

    def listen() -> None:
        with suppress(EOFError, OSError):  # the test has ended, and so does this process
            while True:
                obey(*pipe.recv())
                tell(None)

    while (message := pipe.recv()) != ("begin",):
        obey(*message)
    threading.Thread(target=listen, name="kwire faults", daemon=True).start()
    return faults
