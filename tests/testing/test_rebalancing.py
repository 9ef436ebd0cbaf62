"""``kafka.rebalance``: members give partitions back and get them again, because a test wants it."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer

from kwire.testing import Kafka
from kwire.testing.waiting import wait_until


class Member:
    """A stock consumer that polls in a thread; ``events`` says what it got and gave back."""

    def __init__(self, kafka: Kafka, protocol: str) -> None:
        self.events: list[str] = []
        self._has_to_end = threading.Event()
        settings = {
            "bootstrap.servers": kafka.bootstrap,
            "group.id": "billing",
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
        }
        if protocol == "classic":
            settings["heartbeat.interval.ms"] = 200
        self._consumer = Consumer(settings)
        self._consumer.subscribe(
            ["orders"],
            on_assign=lambda _, got: self._note("got", len(got)),
            on_revoke=lambda _, given: self._note("gave back", len(given)),
        )
        self._thread = threading.Thread(target=self._poll)
        self._thread.start()

    def _note(self, what: str, partitions: int) -> None:
        if partitions:  # librdkafka also tells of assignments that bring nothing new
            self.events.append(f"{what} {partitions}")

    def _poll(self) -> None:
        while not self._has_to_end.is_set():
            self._consumer.poll(0.05)
        self._consumer.close()

    def end(self) -> None:
        """Leave the group."""
        self._has_to_end.set()
        self._thread.join()


@contextmanager
def a_member(kafka: Kafka, protocol: str) -> Iterator[Member]:
    """The only member of a group, with four partitions."""
    kafka.topic("orders", partitions=4)
    member = Member(kafka, protocol)
    try:
        wait_until(lambda: member.events == ["got 4"], timeout_s=20, what="its partitions")
        yield member
    finally:
        member.end()


def test_a_classic_group_rebalances() -> None:
    """The member gives all partitions back, and gets all."""
    with Kafka() as kafka, a_member(kafka, "classic") as member:
        kafka.rebalance("billing")
        seen = ["got 4", "gave back 4", "got 4"]
        wait_until(lambda: len(member.events) >= 3, timeout_s=10, what="a second assignment")
        assert member.events == seen


def test_a_group_of_the_consumer_protocol_rebalances() -> None:
    """The member gives half of its partitions back for a moment."""
    with Kafka() as kafka, a_member(kafka, "consumer") as member:
        kafka.rebalance("billing")
        seen = ["got 4", "gave back 2", "got 2"]
        wait_until(lambda: len(member.events) >= 3, timeout_s=10, what="a second assignment")
        assert member.events == seen


def test_a_group_without_members_has_nothing_to_rebalance() -> None:
    """A mistake of the test, which the error names."""
    with Kafka() as kafka, pytest.raises(ValueError, match="group 'billing' has no members"):
        kafka.rebalance("billing")
