"""One trial: a stream into a sink through ``kwire pipeline run``, with kills at random points.

Rules:

- Each kill has its share of the records: a kill comes after a random part of the share was read,
  and then after a random moment. So work goes on between any two kills. Half a share more is
  written meanwhile: a pipeline that was started again never waits for records.
- A worker is killed at work: the stream goes on until there is one, as Spark ends idle ones. Where
  no work is left the driver is killed instead.
- A pipeline that was killed is started again, as a supervisor would do it. One that ends by itself,
  because its broker or its workers were killed, is started again too, and counted.
- After each kill the rows that are there are read by another reader: none may be there twice. A
  driver that was killed begins to start meanwhile, which takes longer than the reading.
- After each kill the group has no offset that no finished batch covers.
- In the end the sink, the dead letters and the group's offsets agree with what a consumer finds in
  the source, and ``kwire pipeline verify`` agrees with that.
"""

import os
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from confluent_kafka import ConsumerGroupTopicPartitions, KafkaException
from confluent_kafka.admin import AdminClient

from kwire.cli import main
from kwire.spark.broker_view import BrokerView
from kwire.spark.checkpoint import Checkpoint, Offsets
from kwire.spark.settings import Source
from kwire.spark.storage import storage_at
from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import WaitTimeout, wait_until
from spark_tests.chaos.places import OUT_PARTITIONS, Place
from spark_tests.chaos.stream import QUIET, TIMEOUT_S, Stream, read_back
from spark_tests.processes import (
    StandaloneCluster,
    kill_group,
    kwire,
    of_session,
    spawn,
    toml,
)
from tests.support.topics import create_topics

PARTITIONS = 3
STEP_TIMEOUT_S = 600.0
"""How long the pipeline may take to get from one kill to the next, on a slow machine; a test of
few records needs much less."""
BATCHES_OF_A_SHARE = 3
AHEAD = 0.5
"""How much of a share the stream may be ahead of the kill."""
MOST_DELAY_S = 1.0
LOOK_S = 0.1
ANSWER_TIMEOUT_S = 10
MOST_ENDS = 3
"""A pipeline that ends by itself more often doesn't get on."""

LOCAL_MASTER = "local[2,4]"
"""With four attempts for each task: otherwise a worker's death fails the batch."""


@dataclass(slots=True)
class Outcome:
    """What has happened in a trial."""

    name: str
    records: int = 0
    kills: Counter[str] = field(default_factory=Counter)
    ended: list[str] = field(default_factory=list)
    """What the pipeline said when it ended by itself."""
    took_s: float = 0.0
    failure: str = ""


class Trial:
    """A source, a pipeline and its sink, and what may be killed; use it as a context manager."""

    def __init__(
        self,
        kind: str,
        directory: Path,
        *,
        records: int,
        kills: int,
        seed: int,
        bootstrap: str = "",
        on_cluster: bool = False,
        has_session: bool = False,
        step_timeout_s: float = STEP_TIMEOUT_S,
        tell: Callable[[str], object] = lambda text: None,
    ) -> None:
        self.outcome = Outcome(f"{kind} on a cluster" if on_cluster else kind, records)
        self._random = Random(f"{seed} {kind} {on_cluster}")
        self._directory = directory
        self._records = records
        self._tell = tell
        self._step_timeout_s = step_timeout_s
        self._on_cluster = on_cluster
        self._has_session = has_session
        self._kind = kind
        self._bootstrap = bootstrap
        self._broker: BrokerProcess | None = None
        self._cluster: StandaloneCluster | None = None
        self._child: subprocess.Popen[bytes] | None = None
        self._stack = ExitStack()
        kinds = ["driver", *([] if bootstrap else ["broker"])]
        kinds.append("executor" if on_cluster else "worker")
        self._plan = [kinds[number % len(kinds)] for number in range(kills)]
        self._random.shuffle(self._plan)

    def __enter__(self) -> "Trial":
        self._directory.mkdir(parents=True)
        if not self._bootstrap:
            self._broker = BrokerProcess(self._directory / "broker")
            self._stack.enter_context(self._broker)
            self._bootstrap = self._broker.bootstrap
        if self._on_cluster:
            cluster = StandaloneCluster(self._directory / "spark")
            self._cluster = self._stack.enter_context(cluster)
        self._stack.callback(self._kill_driver)
        self._topic = f"chaos-{self._random.randrange(16**10):010x}"
        out, dead = f"{self._topic}-out", f"{self._topic}-dead"
        self._place = Place(self._kind, self._directory, self._bootstrap, out, dead)
        self._make_topics()
        self._file = self._directory / "pipeline.toml"
        self._file.write_text(toml(self._settings()))
        self._stream = Stream(
            self._bootstrap,
            self._topic,
            PARTITIONS,
            self._records,
            Random(self._random.random()),
            tombstones=self._place.is_upsert,
        )
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def run(self) -> Outcome:
        """Run it to the end; AssertionError for a promise that was broken."""
        began_s = time.monotonic()
        self._stream.start()
        share = self._records // (len(self._plan) + 1)
        for number, victim in enumerate(self._plan):
            self._stream.allow(int((number + 1 + AHEAD) * share))
            self._get_on(int((number + self._random.uniform(0.05, 0.85)) * share))
            threading.Event().wait(self._random.uniform(0, MOST_DELAY_S))
            victim = self._kill(victim)
            self.outcome.kills[victim] += 1
            self._tell(
                f"kill {number + 1} of {len(self._plan)}: {victim}, after "
                f"{sum(self._position().values()):,} offsets"
            )
            self._keep_running()
            self._expect_no_doubles()
            self._expect_no_early_offsets()
        self._to_the_end()
        self._check()
        self.outcome.took_s = time.monotonic() - began_s
        return self.outcome

    def _make_topics(self) -> None:
        create_topics(self._bootstrap, self._topic, partitions=PARTITIONS)
        if self._kind == "topic":
            create_topics(self._bootstrap, self._place.out, partitions=OUT_PARTITIONS)
        if self._place.has_dead_topic:
            create_topics(self._bootstrap, self._place.dead)

    def _settings(self) -> dict[str, Any]:
        batch = self._records // ((len(self._plan) + 1) * BATCHES_OF_A_SHARE)
        spark = {
            "spark.master": self._cluster.url if self._cluster else LOCAL_MASTER,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.sql.shuffle.partitions": "2",
            "spark.sql.session.timeZone": "UTC",
            # By default each look at a small Delta table takes 50 tasks.
            "spark.databricks.delta.snapshotPartitions": "2",
        }
        return {
            "name": self._topic,
            "checkpoint": str(self._directory / "checkpoint"),
            "trigger": "0 seconds",
            "source": {
                "bootstrap_servers": self._bootstrap,
                "topics": [self._topic],
                "max_offsets_per_trigger": max(batch, 50),
            },
            "decode": {"schema": "n long, name string"},
            "transform": [{"function": "spark_tests.chaos.transform:through_python"}],
            "sink": self._place.settings,
            "dead_letters": self._place.dead_letters_settings,
            "spark": spark,
        }

    # The pipeline's process.

    def _keep_running(self) -> None:
        """Start the pipeline, if it doesn't run."""
        if self._child is not None and self._child.poll() is not None:
            self.outcome.ended.append(self._last_words())
            assert len(self.outcome.ended) <= MOST_ENDS, self._log.read_text()
            self._tell(f"the pipeline has ended: {self._last_words()}")
            self._child = None
        if self._child is None:
            self._child = spawn(kwire("run", self._file), self._log)

    @property
    def _log(self) -> Path:
        return self._directory / "log"

    def _last_words(self) -> str:
        lines = [one for one in self._log.read_text().splitlines() if one.startswith("kwire: ")]
        return lines[-1] if lines else "without a word"

    def _get_on(self, offsets: int) -> None:
        """Wait until the pipeline has finished batches up to so many offsets in all."""
        self._wait(lambda: sum(self._position().values()) >= offsets, f"{offsets} offsets")

    def _wait(self, condition: Callable[[], object], what: str) -> None:
        def is_so() -> bool:
            self._stream.raise_failure()
            self._keep_running()
            return bool(condition())

        try:
            wait_until(is_so, timeout_s=self._step_timeout_s, what=what, interval_s=LOOK_S)
        except WaitTimeout as error:
            raise AssertionError(
                f"{self.outcome.name}: no {what} within {self._step_timeout_s:.0f} s; kills so "
                f"far: {dict(self.outcome.kills)}; finished offsets: {self._position()}; the "
                f"source's end: {self._ends()}; the pipeline's log:\n{self._log.read_text()}"
            ) from error

    def _position(self) -> Offsets:
        checkpoint = self._directory / "checkpoint" / "spark-0"
        return Checkpoint(storage_at(str(checkpoint))).next_offsets()

    # What is killed.

    def _kill(self, victim: str) -> str:
        """Kill a process of a kind, if there is one; the kind of what was killed."""
        if victim in ("worker", "executor"):
            found: list[int] = []

            def has_found() -> bool:
                found[:] = self._victims()
                return bool(found) or not self._stream.allow_more()

            self._wait(has_found, f"a process of the kind {victim}")
            if not found:
                victim = "driver"
            else:
                with suppress(ProcessLookupError):  # it has ended by itself
                    os.kill(self._random.choice(found), signal.SIGKILL)
        if victim == "driver":
            self._kill_driver()
        elif victim == "broker":
            assert self._broker is not None
            self._broker.kill()
            threading.Event().wait(self._random.uniform(0, MOST_DELAY_S))
            self._broker.restart()
        return victim

    def _kill_driver(self) -> None:
        if self._child is not None:
            kill_group(self._child)
        self._child = None

    def _victims(self) -> list[int]:
        """The executors, or the Python workers and the process that forks them."""
        if self._cluster is not None:
            return self._cluster.executors()
        assert self._child is not None
        return of_session(self._child.pid, "pyspark.daemon")

    # What is promised.

    def _expect_no_doubles(self) -> None:
        if self._place.is_upsert:
            self._place.rows_by_key()
            return
        found = self._place.numbers()
        assert len(found) == len(np.unique(found)), "a record is there twice after a kill"

    def _expect_no_early_offsets(self) -> None:
        committed = self._committed()
        finished = self._position()
        early = {one: at for one, at in committed.items() if at > finished.get(one, 0)}
        assert not early, f"the group is at {early}, and finished batches end at {finished}"

    def _committed(self) -> Offsets:
        """The group's offsets, as any tool sees them that is started now."""
        asked = [ConsumerGroupTopicPartitions(self._topic)]
        found: list[ConsumerGroupTopicPartitions] = []

        def is_answered() -> bool:
            admin = AdminClient({"bootstrap.servers": self._bootstrap}, logger=QUIET)
            answers = admin.list_consumer_group_offsets(asked, request_timeout=ANSWER_TIMEOUT_S)
            with suppress(KafkaException):  # the broker was killed a moment ago
                found[:] = [answers[self._topic].result()]
            return bool(found)

        wait_until(is_answered, timeout_s=TIMEOUT_S, what="the group's offsets", interval_s=LOOK_S)
        return {(one.topic, one.partition): one.offset for one in found[0].topic_partitions}

    def _to_the_end(self) -> None:
        """Let the pipeline read everything, and end it."""
        self._stream.allow(self._records)
        self._get_on(self._records)
        self._stream.finish(self._step_timeout_s)
        ends = self._ends()
        self._wait(lambda: self._position() == ends, f"the end, {ends}")
        assert self._child is not None
        self._child.send_signal(signal.SIGTERM)
        assert self._child.wait(self._step_timeout_s) == 0, self._log.read_text()

    def _ends(self) -> Offsets:
        with BrokerView(Source(self._bootstrap, (self._topic,))) as view:
            return view.ends([(self._topic, one) for one in range(PARTITIONS)])

    def _check(self) -> None:
        written = read_back(self._bootstrap, self._topic, PARTITIONS)
        count = len(written.numbers) + len(written.garbage) + written.tombstones
        assert count == self._records, "the producers' own promise"
        if self._place.is_upsert:
            assert self._place.rows_by_key() == written.newest
        else:
            assert np.array_equal(self._place.numbers(), np.sort(written.numbers))
        assert self._place.dead_letters() == sorted(written.garbage)
        assert self._committed() == self._ends()
        self._verify()

    def _verify(self) -> None:
        if self._has_session:  # a start of Java less
            assert main(["pipeline", "verify", str(self._file)]) == 0
            return
        done = subprocess.run(
            kwire("verify", self._file, "--json"),
            capture_output=True,
            text=True,
            timeout=self._step_timeout_s,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
