"""Transactions while the broker is killed: the histories of producers that never give up.

These brokers belong to the test, which kills them; so it runs on kwire alone.
"""

import threading
from pathlib import Path

from confluent_kafka import KafkaException, Producer

from compat_tests.clients import QUIET, produce_confluent
from compat_tests.histories import History, Outcome
from compat_tests.reading import LOOK_S, count_of, read_all
from compat_tests.test_copiers import PARTITIONS as COPIED_PARTITIONS
from compat_tests.test_copiers import PER_PARTITION, Copiers, copying
from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

TOPIC, PARTITIONS = "ledger", 2
KILLS = 4
PATIENCE_S = 60


class Writer(threading.Thread):
    """A producer that commits and aborts in turn until it is told to stop, whatever happens."""

    def __init__(self, bootstrap: str, name: str) -> None:
        super().__init__(name=name)
        self.bootstrap = bootstrap
        self.history: list[tuple[str, list[tuple[int, str]], Outcome]] = []
        self.is_stopping = threading.Event()

    def run(self) -> None:
        """Transactions by one producer after another: one that fails for good is replaced."""
        producer = self.begin()
        number = 0
        while not self.is_stopping.is_set():
            name = f"{self.name}/{number}"
            number += 1
            try:
                outcome = self.transaction(producer, name, commits=number % 3 != 0)
            except KafkaException:
                outcome = Outcome.UNKNOWN
                producer = self.begin()
            self.history[-1] = (*self.history[-1][:2], outcome)

    def begin(self) -> Producer:
        """A producer that fences the one before it."""
        config = {"bootstrap.servers": self.bootstrap, "transactional.id": self.name}
        config["reconnect.backoff.max.ms"] = "200"
        producer = Producer(config, logger=QUIET)
        producer.init_transactions(PATIENCE_S)
        return producer

    def transaction(self, producer: Producer, name: str, *, commits: bool) -> Outcome:
        """One transaction; how it ended, as far as the producer knows."""
        values = [(n % PARTITIONS, f"{name}/{n}") for n in range(10)]
        self.history.append((name, values, Outcome.UNKNOWN))
        producer.begin_transaction()
        for partition, value in values:
            producer.produce(TOPIC, value.encode(), partition=partition)
        while True:
            try:
                if commits:
                    producer.commit_transaction(PATIENCE_S)
                    return Outcome.COMMITTED
                producer.abort_transaction(PATIENCE_S)
            except KafkaException as error:
                if error.args[0].retriable():
                    continue
                if not error.args[0].txn_requires_abort():
                    raise
                commits = False
                continue
            return Outcome.ABORTED


def test_transactions_survive_a_broker_that_is_killed(tmp_path: Path) -> None:
    """Four kills: nothing committed is lost, nothing aborted is seen, nothing is there twice."""
    with BrokerProcess(tmp_path) as broker:
        create_topics(broker.bootstrap, TOPIC, partitions=PARTITIONS)
        writers = [Writer(broker.bootstrap, name) for name in ("p", "q", "r")]
        for writer in writers:
            writer.start()
        for _ in range(KILLS):
            goal = sum(len(writer.history) for writer in writers) + 60
            wait_until(
                lambda goal=goal: sum(len(writer.history) for writer in writers) >= goal,
                timeout_s=PATIENCE_S,
                what="more transactions",
            )
            broker.kill()
            broker.restart()
        for writer in writers:
            writer.is_stopping.set()
        for writer in writers:
            writer.join()
        history = History()
        for writer in writers:
            for name, values, outcome in writer.history:
                for partition, value in values:
                    history.wrote(name, partition, value)
                history.ended(name, outcome)
        for read in read_all(broker.bootstrap, TOPIC, PARTITIONS):
            history.read(*read)
        assert "bug in" not in broker.log()
    history.check()
    assert history.committed_count > KILLS * 200


def test_copiers_survive_a_broker_that_is_killed(tmp_path: Path) -> None:
    """Kafka's copiers speak the newer protocol; each record is copied once, in order."""
    source, target = "source", "target"
    with BrokerProcess(tmp_path) as broker:
        create_topics(broker.bootstrap, source, partitions=COPIED_PARTITIONS)
        create_topics(broker.bootstrap, target, partitions=COPIED_PARTITIONS)
        values = [f"{number:05d}".encode() for number in range(COPIED_PARTITIONS * PER_PARTITION)]
        produce_confluent(broker.bootstrap, source, [(value, value, []) for value in values])
        options = ["--enable-random-aborts", "--use-group-metadata"]
        with copying(Copiers(broker.bootstrap, source, target, "copiers", *options)) as copiers:
            for _ in range(KILLS):
                copiers.wait_for_loops(0, 6)
                broker.kill()
                broker.restart()

            def is_done() -> bool:
                copiers.replace_ended()
                copied = count_of(broker.bootstrap, target, COPIED_PARTITIONS)
                return copied >= len(values)

            wait_until(
                is_done,
                timeout_s=2 * PATIENCE_S,
                what="every record to be copied",
                interval_s=LOOK_S,
            )
        for partition in range(COPIED_PARTITIONS):
            original, copied = (
                [
                    v
                    for p, _, v in read_all(broker.bootstrap, topic, COPIED_PARTITIONS)
                    if p == partition
                ]
                for topic in (source, target)
            )
            assert copied == original
        assert "bug in" not in broker.log()
