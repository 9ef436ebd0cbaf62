"""P15, P16: kills of workers and of their supervisor under load (``kills``).

A worker is back when it serves the records of all its partitions: a request that was sent meanwhile
waits at its port, which stays open. What stock producers notice is measured beside it.
"""

import os
import signal
import time
from collections.abc import Container, Iterator
from pathlib import Path

from bench.cluster.kills import TOPIC, WAIT_S, Load, create_topic, leaders
from bench.cluster.measure import Number, percentile
from bench.load import ask
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until

DEATHS, WITHIN_S = 2, 31.0
"""A worker dies at most so often within so many seconds: before each further start the supervisor
would wait longer, and at last give the worker up."""

WORKERS = 2
BACK_BAR_S = 0.5

FETCH_VERSION = 12
"""The last version that names topics."""


def wait_for_records(address: str, index: int) -> None:
    """Wait until a broker that was killed serves the records of a partition again."""
    partition = FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
    topic = FetchTopic(topic=TOPIC, partitions=[partition])
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1 << 20, topics=[topic])

    def served() -> bool:
        try:
            answer = ask(address, request, FETCH_VERSION)
        except OSError:
            return False  # its last connections were refused or ended
        [told] = answer.responses[0].partitions
        return told.error_code == 0 and bool(told.records)

    wait_until(served, timeout_s=WAIT_S, interval_s=0.002, what=f"the records of {TOPIC}-{index}")


class WorkersTrial:
    """One command with workers under load, which are killed in turn; then its supervisor is.

    A worker dies no more than four times in a minute, so many kills take as many workers.
    """

    def __init__(self, directory: Path, workers: int = WORKERS) -> None:
        self._workers = workers
        options = ["--workers", str(workers)]
        self.process = BrokerProcess(directory, options=options)
        self._died_s: dict[int, list[float]] = {number: [] for number in range(1, workers + 1)}

    def run(self, kills: int) -> Iterator[Number]:
        """All scenarios, and the checks."""
        with self.process as process:
            first = process.bootstrap.split(",")[0]
            create_topic(process.bootstrap, TOPIC, partitions=2 * self._workers)
            spread = sorted([*self._died_s] * 2)
            for address in process.bootstrap.split(","):
                wait_until(lambda a=address: sorted(leaders(a)) == spread, what=TOPIC)  # type: ignore[misc]
            led = leaders(first)
            loyal = {led.index(number) for number in self._died_s}
            with Load(process.bootstrap, len(led), loyal=loyal) as load:
                yield from self.workers(load, led, loyal, kills)
                pids = self.pids()
                began_s = time.monotonic()
                process.kill()
                wait_until(lambda: not any(map(_is_alive, pids)), what="the end of the workers")
                yield Number(
                    "P16 supervisor killed: until its workers ended",
                    time.monotonic() - began_s,
                    "s",
                )
            for writer in load.writers:
                writer.give_up()  # the next workers have other ports
            began_s = time.monotonic()
            process.start()
            yield Number("P16 supervisor killed: the next start", time.monotonic() - began_s, "s")
            load.check(process.bootstrap)
            with Load(process.bootstrap, len(led), after=load) as again:
                pass
            for writer in again.writers:
                writer.settle()
            again.check(process.bootstrap)
            log = process.log()
            assert "bug in" not in log, log

    def pids(self) -> list[int]:
        """The processes of the workers; the template is their parent."""
        [template] = _children(self.process.pid)
        return _children(template)

    def workers(
        self, load: Load, led: list[int], loyal: Container[int], kills: int
    ) -> Iterator[Number]:
        """P15: workers die in turn; each is back with its records."""
        pids = dict(enumerate(self.pids(), 1))
        back_s: list[float] = []
        loyal_s: list[float] = []
        own_s: list[float] = []
        others_s: list[float] = []
        for kill in range(kills):
            number = kill % self._workers + 1
            self._spare(number)
            own = [index for index, leader in enumerate(led) if leader == number]
            rest = [index for index in range(len(led)) if index not in own]
            address = self.process.bootstrap.split(",")[number - 1]
            began_s = time.monotonic()
            os.kill(pids[number], signal.SIGKILL)
            for index in own:
                wait_for_records(address, index)
            back_s.append(time.monotonic() - began_s)
            load.wait(own)
            [pids[number]] = set(self.pids()) - set(pids.values())
            for index in own:
                found_s = loyal_s if index in loyal else own_s
                found_s.append(load.pause("own", [index], began_s).value)
            others_s.append(load.pause("others", rest, began_s).value)
        name = f"P15 worker killed {kills} times"
        for what, values, bar in (
            ("until it serves its records again", back_s, BACK_BAR_S),
            ("pause of its producers that keep to the brokers they know", loyal_s, None),
            ("pause of its producers by default", own_s, None),
            ("pause of other workers' producers", others_s, None),
        ):
            yield Number(f"{name}: {what}, p50", percentile(values, 0.5), "s")
            yield Number(f"{name}: {what}, longest", max(values), "s", bar)

    def _spare(self, number: int) -> None:
        """Wait until the worker may die again."""
        died_s = self._died_s[number]
        if len(died_s) >= DEATHS:
            time.sleep(max(0.0, died_s[-DEATHS] + WITHIN_S - time.monotonic()))
        died_s.append(time.monotonic())


def _children(pid: int) -> list[int]:
    """The child processes of a process, the oldest first."""
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def _is_alive(pid: int) -> bool:
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
