"""Text scripts for the transaction coordinator: what producers ask for, and what comes of it.

A script is a list of commands, each followed by its trace, indented::

    init a
        record Empty producer 1 epoch 0
        a init: producer 1 epoch 0

``run`` carries the commands out and compares the whole text, so that a difference shows in place.

Commands: ``init NAME [id=N epoch=N timeout=SECONDS]``, ``add NAME TOPIC-PARTITION…``, ``check NAME
TOPIC-PARTITION``, ``commit NAME``, ``abort NAME``, ``markers [TOPIC-PARTITION…]`` (all that are
missing, or these), ``after SECONDS``, ``timeouts``, ``expire``, ``restart``, ``writes fail`` or
``work``, ``level N`` (of transaction.version), ``show``.
Every producer has the transactional id ``t``, and remembers its id and epoch; ``id=`` and
``epoch=`` change what it sends, ``v=1`` makes it speak the first protocol.
"""

from collections.abc import Callable

import pytest

from kwire.coordinator.effects import Effects
from kwire.coordinator.transaction.coordinator import (
    ProducerIdNeeded,
    TransactionCoordinator,
    TransactionSettings,
)
from kwire.coordinator.transaction.records import parse_key, parse_transaction
from kwire.coordinator.transaction.state import ProducerIdAndEpoch, TopicPartition, Transaction
from kwire.errors import ErrorCode, KafkaError
from kwire.record.records import Record
from tests.coordinator.scripts import Script, Words

ID = "t"


def partition(word: str) -> TopicPartition:
    """``orders-0`` → ("orders", 0)."""
    topic, index = word.rsplit("-", 1)
    return topic, int(index)


def described(known: Transaction) -> str:
    """A state as the traces show it."""
    shown = f"{known.state.title} producer {known.producer_id} epoch {known.producer_epoch}"
    if known.next_producer_id != -1:
        shown += f" next {known.next_producer_id}"
    partitions = " ".join(f"{topic}-{index}" for topic, index in sorted(known.partitions))
    return f"{shown} [{partitions}]" if partitions else shown


class TransactionScript(Script):
    """A coordinator whose log is a list, and producers that share one transactional id."""

    def __init__(self, **settings: int) -> None:
        self.settings = TransactionSettings(**settings)
        super().__init__()
        self.producers: dict[str, ProducerIdAndEpoch] = {}
        self.coordinator = self.load()

    def carry_out(self, verb: str, plain: list[str], given: Words) -> None:
        """Do what a command says, again with a new producer id where it needs one."""
        try:
            super().carry_out(verb, plain, given)
        except ProducerIdNeeded:
            self.carry_out(verb, plain, {**given, "new": self.new_id()})

    def producer(self, name: str, given: Words) -> ProducerIdAndEpoch:
        """Who a producer says it is."""
        known = self.producers.get(name, ProducerIdAndEpoch(-1, -1))
        return ProducerIdAndEpoch(
            int(given.get("id", known.producer_id)), int(given.get("epoch", known.epoch))
        )

    def do_init(self, plain: list[str], given: Words) -> None:
        """A producer begins; with ``id=`` and ``epoch=`` it says who it was."""
        [name] = plain
        expected = self.producer(name, given) if "epoch" in given else None
        new_id = int(given["new"]) if "new" in given else None
        timeout_ms = int(given.get("timeout", 60)) * 1000
        decision = self.coordinator.init_producer_id(
            given.get("transactional", ID), timeout_ms, expected, new_id, self.now_ms
        )
        self.take(decision.effects)
        if decision.error:
            raise KafkaError(decision.error)
        known = self.coordinator.transactions[ID]
        self.producers[name] = ProducerIdAndEpoch(known.producer_id, known.producer_epoch)
        self.trace.append(f"{name} init: producer {known.producer_id} epoch {known.producer_epoch}")

    def do_add(self, plain: list[str], given: Words) -> None:
        """A producer's transaction takes in partitions."""
        name, *partitions = plain
        effects = self.coordinator.add_partitions(
            given.get("transactional", ID),
            self.producer(name, given),
            [partition(word) for word in partitions],
            2 if given.get("v", "2") == "2" else 0,
            self.now_ms,
        )
        self.take(effects)
        self.trace.append(f"{name} add: ok")

    def do_check(self, plain: list[str], given: Words) -> None:
        """A broker asks whether a partition was added."""
        name, word = plain
        known = self.coordinator.check_added(ID, self.producer(name, given))
        self.trace.append("yes" if partition(word) in known.partitions else "no")

    def do_commit(self, plain: list[str], given: Words) -> None:
        """A producer commits."""
        self.end(plain[0], given, committed=True)

    def do_abort(self, plain: list[str], given: Words) -> None:
        """A producer aborts."""
        self.end(plain[0], given, committed=False)

    def end(self, name: str, given: Words, *, committed: bool) -> None:
        """A producer ends its transaction, and goes on with the epoch it is told."""
        bumps = given.get("v", "2") == "2"
        effects = self.coordinator.end_transaction(
            given.get("transactional", ID),
            self.producer(name, given),
            int(given["new"]) if "new" in given else None,
            self.now_ms,
            committed=committed,
            client_version=2 if bumps else 0,
        )
        self.take(effects)
        known = self.coordinator.transactions[ID]
        if bumps:
            rotates = known.next_producer_id != -1
            self.producers[name] = ProducerIdAndEpoch(
                known.next_producer_id if rotates else known.producer_id,
                0 if rotates else known.producer_epoch,
            )
        self.trace.append(f"{name}: done already" if effects is None else f"{name}: ok")

    def do_markers(self, plain: list[str], given: Words) -> None:
        """Markers are written, all that are missing or those that are named."""
        for transactional_id in list(self.coordinator.unfinished):
            known = self.coordinator.transactions[transactional_id]
            wanted = [partition(word) for word in plain] or sorted(known.partitions)
            how = "commit" if known.is_committing else "abort"
            for topic, index in wanted:
                self.coordinator.markers_written(transactional_id, [(topic, index)])
                self.trace.append(f"marker {topic}-{index} {how} epoch {known.producer_epoch}")
            if not self.coordinator.transactions[transactional_id].partitions:
                self.take(self.coordinator.complete(transactional_id, self.now_ms))

    def do_after(self, plain: list[str], given: Words) -> None:
        """Time passes."""
        self.now_ms += int(plain[0]) * 1000

    def age_ms(self, date_ms: int) -> int:
        """How long ago a date was."""
        return self.now_ms - date_ms

    def do_timeouts(self, plain: list[str], given: Words) -> None:
        """Transactions that are open for too long are looked for."""
        for transactional_id in self.coordinator.timed_out(self.age_ms):
            new_id = int(given["new"]) if "new" in given else None
            effects = self.coordinator.abort_timed_out(
                transactional_id, new_id, self.now_ms, self.age_ms
            )
            self.take(effects)

    def do_expire(self, plain: list[str], given: Words) -> None:
        """Ids that nobody uses are looked for."""
        self.take(self.coordinator.expire_ids(self.age_ms))

    def do_level(self, plain: list[str], given: Words) -> None:
        """The feature transaction.version gets another level."""
        self.settings = self.settings._replace(transaction_version=int(plain[0]))
        self.coordinator.settings = self.settings

    def do_show(self, plain: list[str], given: Words) -> None:
        """The state as it is."""
        known = self.coordinator.get(ID)
        unfinished = " unfinished" if ID in self.coordinator.unfinished else ""
        self.trace.append((described(known) if known else "unknown") + unfinished)

    def load(self) -> TransactionCoordinator:
        """A coordinator that has replayed the log."""
        coordinator = TransactionCoordinator(self.settings)
        for record in self.log:
            coordinator.replay(record, -1, self.now_ms, loading=True)
        return coordinator

    def take(self, effects: Effects | None) -> None:
        """What the runtime does: write and replay, or go back."""
        if effects is None:
            return
        if self.writes_fail and effects.records:
            self.coordinator.undo(effects, self.now_ms)
            raise KafkaError(ErrorCode.NOT_COORDINATOR)
        for key, value, _ in effects.records:
            record = Record(len(self.log), self.now_ms, key, value)
            self.log.append(record)
            transactional_id = parse_key(key)
            assert transactional_id is not None
            gone = "gone" if value is None else described(parse_transaction(ID, value))
            self.trace.append(f"record {gone}")
            self.coordinator.replay(record, -1, self.now_ms, loading=False)


@pytest.fixture(scope="session")
def new_script() -> Callable[..., TransactionScript]:
    """Makes scripts; keyword arguments are the coordinator's settings."""
    return TransactionScript


@pytest.fixture
def script() -> TransactionScript:
    """A script with Kafka's settings."""
    return TransactionScript()
