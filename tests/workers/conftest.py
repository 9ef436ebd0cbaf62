"""Workers as processes: one command with several brokers, and its parts by process id."""

import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path

import pytest

from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until

FEW = {"offsets.topic.num.partitions": "4", "transaction.state.log.num.partitions": "4"}


class Workers:
    """``kwire serve --workers``; ``addresses`` are those of the workers, by their numbers."""

    def __init__(
        self, data_dir: Path, count: int | None, settings: Mapping[str, str], listen: str
    ) -> None:
        options = [] if count is None else ["--workers", str(count)]
        self.process = BrokerProcess(data_dir, settings, listen, options=options)
        self.process.start()
        self._ended = False

    @property
    def bootstrap(self) -> str:
        """All addresses."""
        return self.process.bootstrap

    @property
    def addresses(self) -> list[str]:
        """The address of each worker."""
        return self.bootstrap.split(",")

    def ports(self) -> list[int]:
        """The port of each worker."""
        return [int(address.rpartition(":")[2]) for address in self.addresses]

    def pids(self) -> list[int]:
        """The process ids of the workers; those that were started first come first."""
        return _children(self._template())

    def _template(self) -> int:
        (template,) = _children(self.process.pid)
        return template

    def kill_template(self) -> None:
        """End the process that starts workers with SIGKILL, and wait until these have ended."""
        pids = self.pids()
        os.kill(self._template(), signal.SIGKILL)
        wait_until(lambda: not any(map(_is_alive, pids)), what="the end of the workers")

    def kill_worker(self, number: int) -> None:
        """End a worker that was never started again, with SIGKILL."""
        os.kill(self.pids()[number - 1], signal.SIGKILL)

    def kill_supervisor(self) -> None:
        """End the supervisor with SIGKILL, and wait until its workers have ended by themselves."""
        pids = self.pids()
        assert pids
        self._ended = True
        self.process.kill()
        wait_until(lambda: not any(map(_is_alive, pids)), what="the end of the workers")

    def wait_for_end(self) -> int:
        """Wait until the supervisor has ended by itself; returns the exit code."""
        wait_until(lambda: not _is_alive(self.process.pid), what="the end of the supervisor")
        return self.stop()

    def stop(self) -> int:
        """Stop all; returns the exit code."""
        self._ended = True
        return self.process.stop()

    def close(self) -> None:
        """Stop all, unless that has been done."""
        if not self._ended:
            self.process.stop()


def _children(pid: int) -> list[int]:
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _is_alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Workers]]:
    """Starts workers, or one broker without ``--workers``, in the same data directory."""
    with ExitStack() as stack:

        def started(count: int | None = 2, listen: str = "127.0.0.1:0", **settings: str) -> Workers:
            own = {name.replace("_", "."): value for name, value in settings.items()}
            found = Workers(tmp_path / "data", count, {**FEW, **own}, listen)
            stack.callback(found.close)
            return found

        yield started
