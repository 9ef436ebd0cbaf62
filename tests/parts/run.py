"""Runs the parts of ``make test`` side by side and sums them up in tables.

Before it starts it says what it will do, how long each part usually takes, and how much it
downloads. Every part runs, also after one that failed: one run tells all that is wrong. Nothing
runs twice: a test that fails is a defect of kwire or of the test.

What a part prints is kept in a file, ``build/test-logs/<part>.txt``, and shown whole when the part
has ended; meanwhile one line says what runs. A part that runs alone prints as it goes. Ctrl-C ends
all that was started, and the tables show what ran.
"""

import os
import select
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGHUP, SIGINT, SIGTERM

from rich.console import Console

from tests.parts.parts import Measured, Part, duration, longest_first, next_part, usual
from tests.parts.running import Result, Running
from tests.parts.tables import (
    failures,
    plan,
    slowest_files_table,
    slowest_table,
    summary,
    write_results,
)

RESULTS = "results.json"
PATIENCE_S = 20
"""So long the parts may clean up after Ctrl-C; another Ctrl-C ends them at once."""
REFRESH_S = 1
"""On a terminal the line that says what runs is renewed so often."""
SILENCE_S = 60
"""In a log it is printed so often: a CI may take silence for a hang."""


class Interrupts:
    """Counts Ctrl-C, the end of the terminal and SIGTERM of a CI; ``select`` sees them.

    Under ``nohup`` the end of the terminal is nothing.
    """

    def __init__(self) -> None:
        self.count = 0
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def __enter__(self) -> "Interrupts":
        numbers = [SIGINT, SIGTERM]
        if signal.getsignal(SIGHUP) != signal.SIG_IGN:
            numbers.append(SIGHUP)
        self._before = [(one, signal.signal(one, self._note)) for one in numbers]
        self._before_fd = signal.set_wakeup_fd(self._write)
        return self

    def __exit__(self, *_: object) -> None:
        signal.set_wakeup_fd(self._before_fd)
        for number, handler in self._before:
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)

    def fileno(self) -> int:
        """Readable when a signal has come."""
        return self._read

    def forget(self) -> None:
        """Be readable at the next signal only."""
        with suppress(BlockingIOError):
            os.read(self._read, 1000)

    def _note(self, number: int, frame: object) -> None:
        self.count += 1


Command = Callable[[Part], Sequence[str]]


class Run:
    """Parts that run and parts that wait for cores."""

    def __init__(
        self, parts: Sequence[Part], measured: Measured, cores: int, logs: Path, console: Console
    ) -> None:
        self._count = len(parts)
        self._waiting = longest_first(parts, measured)
        self._measured = measured
        self._cores = cores
        self._logs = logs
        self._console = console
        self._started = time.monotonic()
        self._running: list[Running] = []
        self._results: list[Result] = []
        self._interrupted: list[Result] = []

    def run(self, command: Command) -> int:
        """Run all parts and show the tables; 0 if all went well, 130 if interrupted, else 1."""
        self._logs.mkdir(parents=True, exist_ok=True)
        with Interrupts() as interrupts:
            while (self._waiting or self._running) and not interrupts.count:
                self._start_what_fits(command)
                self._wait_for_one(interrupts)
            if self._running:
                self._interrupt(interrupts)
        seconds = time.monotonic() - self._started
        results = [*self._results, *self._interrupted]
        write_results(self._logs / RESULTS, self._results, seconds, self._cores)
        self._console.print(slowest_table(results))
        self._console.print(slowest_files_table(results))
        for line in failures(self._results):
            self._console.print(line, soft_wrap=True)
        self._console.print(summary(self._results, self._interrupted, self._waiting, seconds))
        if self._interrupted or self._waiting:
            return 128 + SIGINT
        return int(any(result.status for result in results))

    def _start_what_fits(self, command: Command) -> None:
        while part := next_part(self._waiting, [one.part for one in self._running], self._cores):
            is_alone = self._count == 1
            if is_alone:
                self._rule(1, part)
            self._running.append(Running(part, command(part), self._logs, is_alone=is_alone))
            self._waiting.remove(part)

    def _wait_for_one(self, interrupts: Interrupts) -> None:
        """Until a part has ended; what it printed is shown then."""
        with self._line() as (show, pause_s):
            while not (ended := self._ended(interrupts, pause_s)) and not interrupts.count:
                show(self._what_runs())
        for one in ended:
            self._running.remove(one)
            self._results.append(one.end())
            if one.output is not None:
                self._rule(len(self._results), one.part)
                show_file(one.output, self._console)

    def _ended(self, interrupts: Interrupts, timeout_s: float) -> list[Running]:
        """The parts that have ended, after so many seconds or at a signal."""
        readable = select.select([interrupts, *self._running], [], [], timeout_s)[0]
        return [one for one in self._running if one in readable]

    @contextmanager
    def _line(self) -> Iterator[tuple[Callable[[str], object], float]]:
        """How to say what runs, and how often; a part that runs alone says it itself."""
        if any(one.output is None for one in self._running):
            yield (lambda text: None), SILENCE_S
        elif self._console.is_terminal:
            with self._console.status(self._what_runs()) as status:
                yield status.update, REFRESH_S
        else:
            yield self._console.print, SILENCE_S

    def _what_runs(self) -> str:
        passed = duration(time.monotonic() - self._started)
        running = ", ".join(map(self._how_long, self._running))
        return f"{passed}: {running}; {len(self._waiting)} to come"

    def _how_long(self, one: Running) -> str:
        usually = usual(one.part, self._measured)
        return f"{one.part.target} {duration(one.seconds)}" + f" (usually {usually})" * bool(
            usually
        )

    def _rule(self, number: int, part: Part) -> None:
        self._console.rule(f"{number} of {self._count}: {part.target}")
        self._console.print(part.what, justify="center", overflow="fold")

    def _interrupt(self, interrupts: Interrupts) -> None:
        """End what runs: as Ctrl-C at a terminal does, and by force what doesn't end in time."""
        for one in self._running:
            one.interrupt()
        deadline = time.monotonic() + PATIENCE_S
        while self._running and (left_s := deadline - time.monotonic()) > 0:
            interrupts.forget()
            for one in self._ended(interrupts, left_s):
                self._running.remove(one)
                self._interrupted.append(one.end())
            if interrupts.count > 1:
                break
        self._interrupted += [one.end() for one in self._running]
        self._running = []


def run_all(
    parts: Sequence[Part],
    command: Command,
    console: Console,
    measured: Measured,
    *,
    cores: int,
    logs: Path,
) -> int:
    """Say what will be done, and do it; the exit status."""
    console.print(plan(parts, measured))
    return Run(parts, measured, cores, logs, console).run(command)


def show_file(path: Path, console: Console) -> None:
    """Print what a part has printed, byte for byte."""
    with path.open("rb") as file:
        out = getattr(console.file, "buffer", None)
        if out is None:
            console.file.write(file.read().decode(errors="replace"))
        else:
            shutil.copyfileobj(file, out)
            out.flush()


def make_command(part: Part) -> list[str]:
    """Pytest names each file of tests while it works; several processes of it show dots."""
    return [os.environ.get("MAKE", "make"), "--no-print-directory", part.target, "QUIET="]
