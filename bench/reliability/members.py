"""``python -m bench.reliability.members``: a group of KIP-848 while its coordinator is hurt.

Three members of librdkafka read and commit what is written meanwhile. A fourth one comes and goes,
so that partitions move; while they do, the coordinator is killed with SIGKILL, or stands still by
SIGSTOP, on three kwires and on three Apache Kafkas. Told is what
members notice: how often one was fenced, how often partitions were lost, and how many records were
read more than once. It exits with 1 if a record was never read.

A member is fenced if it doesn't know the epoch that the coordinator has given it, because the
answer was lost with the coordinator; Kafka lets it go back by one epoch, if it still has no
partition of the new one (``GroupMetadataManager``). It then gives up its partitions, and joins
anew. What it had read and not committed is read again.
"""

import argparse
import logging
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Consumer, KafkaException, Message, Producer

from bench.cluster.kills import create_topic
from bench.load import ask
from bench.reliability.catalogue import Maker
from bench.reliability.clusters import KAFKA, KWIRE, REPLICAS, Trial, kafka, kwire
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.testing.waiting import wait_until

MEMBERS = 3
PARTITIONS = 6
TOPIC = "work"
GROUP = "workers"
PAUSE_S = 0.005
FROZEN_S = 12.0
CALM_S = 4.0
STEP_S = 0.4
"""So much later each fault comes after the fourth member, so that each meets another moment."""
PATIENCE_S = 120.0
CLIENT = {"socket.timeout.ms": 3000, "topic.metadata.refresh.interval.ms": 1000}
FENCED = re.compile(r"ConsumerGroupHeartbeat failed due to: .*: will rejoin the group")
"""How librdkafka tells of FENCED_MEMBER_EPOCH and UNKNOWN_MEMBER_ID."""

MAKERS: dict[str, Maker] = {KWIRE: kwire, KAFKA: kafka}


class Seen:
    """What all members have noticed."""

    def __init__(self) -> None:
        self.read: Counter[tuple[int, int]] = Counter()
        self.fenced = 0
        self.lost = 0
        self._lock = threading.Lock()

    def reads(self, message: Message) -> None:
        """Note a record."""
        partition, offset = message.partition(), message.offset()
        if partition is None or offset is None:
            return
        with self._lock:
            self.read[partition, offset] += 1

    def loses(self, *_: object) -> None:
        """Note that a member has lost its partitions."""
        with self._lock:
            self.lost += 1

    @property
    def repeated(self) -> int:
        """How often a record was read after the first time."""
        return self.read.total() - len(self.read)


class _Fencings(logging.Handler):
    """Counts the lines of librdkafka that tell of a fencing."""

    def __init__(self, seen: Seen) -> None:
        super().__init__(logging.DEBUG)
        self._seen = seen

    def emit(self, record: logging.LogRecord) -> None:
        """Look at a line."""
        if FENCED.search(record.getMessage()):
            self._seen.fenced += 1


def _logger(seen: Seen) -> logging.Logger:
    made = logging.getLogger(f"bench.members.{id(seen)}")
    made.propagate = False
    made.setLevel(logging.DEBUG)
    made.addHandler(_Fencings(seen))
    return made


class Group:
    """The members and the producer, in threads, to the end of the block."""

    def __init__(self, trial: Trial) -> None:
        self.seen = Seen()
        self._trial = trial
        self._stop = threading.Event()
        self._written = 0
        self._is_over = threading.Event()
        self._reading = [
            threading.Thread(target=self._read, args=(self._is_over,)) for _ in range(MEMBERS)
        ]
        self._writing = threading.Thread(target=self._write)

    def __enter__(self) -> "Group":
        for thread in [*self._reading, self._writing]:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._writing.join()
        self._is_over.set()
        for thread in self._reading:
            thread.join()

    @contextmanager
    def visitor(self) -> Iterator[None]:
        """A member more during the block; it is there when the block begins, or will be soon."""
        ends = threading.Event()
        thread = threading.Thread(target=self._read, args=(ends,))
        thread.start()
        try:
            yield
        finally:
            ends.set()
            thread.join()

    def wait_until_all_is_read(self) -> None:
        """Stop writing, and wait until the members have everything; AssertionError."""
        self._stop.set()
        self._writing.join()
        wait_until(
            lambda: len(self.seen.read) >= self._written,
            timeout_s=PATIENCE_S,
            what=f"{self._written} records to be read",
        )

    def _write(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self._trial.bootstrap, "enable.idempotence": True, **CLIENT}
        )
        while not self._stop.wait(PAUSE_S):
            producer.produce(TOPIC, str(self._written), partition=self._written % PARTITIONS)
            producer.poll(0)
            self._written += 1
        assert producer.flush(PATIENCE_S) == 0, "records were not written"

    def _read(self, ends: threading.Event) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self._trial.bootstrap,
                "group.id": GROUP,
                "group.protocol": "consumer",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "debug": "cgrp,consumer",
                **CLIENT,
            },
            logger=_logger(self.seen),
        )
        consumer.subscribe([TOPIC], on_lost=self.seen.loses)
        while not ends.is_set():
            message = consumer.poll(0.2)
            if message is None or message.error():
                continue
            self.seen.reads(message)
            try:
                consumer.commit(message, asynchronous=True)
            except KafkaException:  # the member is fenced, and joins anew
                continue
        consumer.close()


def _coordinator(trial: Trial) -> int:
    """The broker that coordinates the group."""

    def told() -> int:
        up = next(node for one, node in trial.nodes.items() if one not in trial.down)
        request = FindCoordinatorRequest(coordinator_keys=[GROUP])
        [found] = ask(up.bootstrap, request, 4).coordinators
        is_up = not found.error_code and found.node_id not in trial.down
        return int(found.node_id) if is_up else 0

    return wait_until(told, timeout_s=PATIENCE_S, what="a coordinator")


def _killed(trial: Trial, victim: int) -> None:
    trial.kill(victim)
    time.sleep(CALM_S)
    trial.start(victim)


def _frozen(trial: Trial, victim: int) -> None:
    trial.freeze(victim)
    try:
        time.sleep(FROZEN_S)
    finally:
        trial.thaw(victim)


FAULTS = {"SIGKILL of the coordinator": _killed, "SIGSTOP for 12 s": _frozen}


def _hurt(system: str, times: int, directory: Path) -> bool:
    """Print a line for each kind of fault; whether every record was read."""
    with MAKERS[system](directory) as trial:
        create_topic(
            trial.bootstrap, TOPIC, PARTITIONS, REPLICAS, config={"min.insync.replicas": "2"}
        )
        trial.wait_in_sync(TOPIC)
        with Group(trial) as group:
            seen = group.seen
            wait_until(lambda: len(seen.read) > 100, timeout_s=PATIENCE_S, what="members to read")
            for name, fault in FAULTS.items():
                before = seen.fenced, seen.lost, seen.repeated
                for number in range(times):
                    time.sleep(CALM_S)
                    victim = _coordinator(trial)
                    with group.visitor():
                        time.sleep(number * STEP_S)
                        fault(trial, victim)
                        trial.wait_in_sync(TOPIC)
                time.sleep(CALM_S)
                after = seen.fenced, seen.lost, seen.repeated
                fenced, lost, repeated = (new - old for new, old in zip(after, before, strict=True))
                print(
                    f"{system}, {name}, {times} times: fenced {fenced} times, partitions lost "
                    f"{lost} times, {repeated} records read again",
                    flush=True,
                )
            try:
                group.wait_until_all_is_read()
            except AssertionError as error:
                print(f"{system}: {error}", flush=True)
                return False
    return True


def main() -> int:
    """Run both, one after the other."""
    parser = argparse.ArgumentParser(prog="python -m bench.reliability.members")
    parser.add_argument("--times", type=int, default=5, help="of each fault (default: 5)")
    parser.add_argument("--only", choices=[KWIRE, "kafka"], help="one of the systems")
    options = parser.parse_args()
    wanted = [KWIRE, KAFKA] if options.only is None else [options.only.replace("kafka", KAFKA)]
    with tempfile.TemporaryDirectory(prefix="kwire-members-") as directory:
        whole = [_hurt(system, options.times, Path(directory) / system) for system in wanted]
    return 0 if all(whole) else 1


if __name__ == "__main__":
    sys.exit(main())
