"""The crash test: a broker killed with ``kill -9`` again and again under load.

``python -m compat_tests.crash --kills 50 --seed 1`` (``make crash KILLS=50 SEED=1``) starts kwire,
writes to it with idempotent and with simple producers in several codecs while topics and configs
are changed, offsets committed, segments rolled, checkpointed and deleted, and kills it at a random
moment. After every restart: each acknowledged record is there, those of idempotent producers once
and in order; committed offsets, topics and configs are as they were answered.

``kill -9`` leaves the page cache alone; the death of the machine is simulated in ``tests/log``.
"""

import argparse
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

from confluent_kafka import Consumer

from compat_tests.clients import QUIET
from compat_tests.crash_clients import Churn, Writer, read_all
from kwire.testing.process import BrokerProcess
from tests.support.topics import create_topics

SETTINGS = {
    "log.segment.bytes": "1048576",
    "log.index.interval.bytes": "512",
    "log.initial.task.delay.ms": "200",
    "log.flush.offset.checkpoint.interval.ms": "300",
    "log.flush.start.offset.checkpoint.interval.ms": "300",
    "log.retention.check.interval.ms": "300",
    "log.segment.delete.delay.ms": "100",
    "offsets.topic.num.partitions": "5",
}
TOPICS = {"plain": {}, "flushed": {"flush.messages": "50"}, "short": {"retention.bytes": "3000000"}}
MOST_LOAD_S = 1.5


class CrashTest:
    """A broker, the clients that write to it, and what they were promised."""

    def __init__(self, data_dir: Path, seed: int) -> None:
        self.random = Random(seed)
        self.broker = BrokerProcess(data_dir, SETTINGS).start()
        bootstrap = self.broker.bootstrap
        for name, configs in TOPICS.items():
            create_topics(bootstrap, name, partitions=2, **configs)
        big = {"linger.ms": 50, "batch.size": 500_000}
        self.writers = [
            Writer(bootstrap, "plain", 0, exactly_once=True),
            Writer(bootstrap, "plain", 1, exactly_once=False, **{"compression.type": "lz4"}),
            Writer(bootstrap, "flushed", 0, exactly_once=True, **{"compression.type": "snappy"}),
            Writer(bootstrap, "flushed", 1, exactly_once=False),
            Writer(bootstrap, "short", 0, exactly_once=True, **big),
            Writer(bootstrap, "short", 1, exactly_once=True, **{"compression.type": "zstd"}, **big),
        ]
        self.churn = Churn(bootstrap, "crash", "plain", self.random)
        self.reader = Consumer(
            {"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False},
            logger=QUIET,
        )

    def round(self) -> None:
        """Load, a kill at a random moment, a restart, and everything checked."""
        over = threading.Event()
        churning = threading.Thread(target=self._until(over, self.churn.step))
        churning.start()
        end_s = time.monotonic() + self.random.uniform(0.05, MOST_LOAD_S)
        while time.monotonic() < end_s:
            for writer in self.writers:
                writer.send(self.random.randrange(60), self.random.choice((10, 300, 2000)))
        self.broker.kill()
        over.set()
        self.broker.restart()
        churning.join()  # not before: librdkafka waits for a coordinator for ever
        self.check()

    def _until(self, over: threading.Event, step: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            while not over.is_set():
                step()

        return run

    def check(self) -> None:
        """Everything that was promised is so."""
        for writer in self.writers:
            writer.settle()
        for writer in self.writers:
            rows = read_all(self.reader, writer.topic, writer.partition, writer.next_offset)
            writer.check(rows)
        self.churn.check()
        log = self.broker.log()
        assert "Traceback" not in log, log
        assert "bug in" not in log, log

    def close(self) -> None:
        """Stop the broker; what a clean stop leaves is read once more, from the beginning."""
        self.broker.restart()
        for writer in self.writers:
            writer.next_offset = writer.next_number = 0
            rows = read_all(self.reader, writer.topic, writer.partition, 0)
            if rows:
                writer.next_number = rows[0][1]
            writer.check(rows)
        self.reader.close()
        self.churn.consumer.close()
        assert self.broker.stop() == 0

    @property
    def summary(self) -> str:
        """What was done, in a line."""
        records = sum(writer.next_number for writer in self.writers)
        return f"{records} records, {len(self.churn.topics)} topics, {self.churn.committed} commits"


def run(kills: int, seed: int, tell: Callable[[str], object] = lambda text: None) -> str:
    """Kill a broker so many times; a summary. AssertionError where it broke a promise."""
    with tempfile.TemporaryDirectory(prefix="kwire-crash-") as directory:
        test = CrashTest(Path(directory), seed)
        try:
            for number in range(1, kills + 1):
                test.round()
                tell(f"kill {number} of {kills}: {test.summary}")
            test.close()
        finally:
            test.broker.kill()
        return test.summary


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    began_s = time.monotonic()
    summary = run(options.kills, options.seed, lambda text: print(text, flush=True))
    took_s = time.monotonic() - began_s
    print(f"{options.kills} kills in {took_s:.0f} s, nothing lost: {summary}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
