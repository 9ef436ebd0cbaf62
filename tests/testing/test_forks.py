"""A test that forks while a broker runs: the child has no part in the broker."""

import os
import select
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from kwire.testing import Kafka

pytestmark = pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")


@contextmanager
def forked(work: Callable[[], None] = lambda: None) -> Iterator[None]:
    """A child that has done ``work`` and lives until the end of the block."""
    waits, ends = os.pipe()
    says, told = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.close(ends)
            work()
            os.write(told, b"done")
            os.read(waits, 1)
            code = 0
        finally:
            os._exit(code)
    os.close(told)
    try:
        assert os.read(says, 4) == b"done"
        yield
    finally:
        os.close(ends)
        assert os.waitpid(child, 0)[1] == 0
        os.close(waits)
        os.close(says)


def test_a_broker_starts_again_while_a_forked_child_lives() -> None:
    """Neither the address nor the locks are the child's."""
    with Kafka() as kafka:
        kafka.topic("orders", records=["first"])
        with forked():
            kafka.restart()
            assert [one.value for one in kafka.records("orders")] == [b"first"]
            kafka.reset()
            assert kafka.describe() == "no topics"


def test_a_client_sees_the_end_of_the_broker_while_a_forked_child_lives() -> None:
    """Its connection isn't kept open by the child."""
    with Kafka() as kafka:
        host, _, port = kafka.bootstrap.rpartition(":")
        with socket.create_connection((host, int(port))) as client:
            kafka.topic("orders")  # the broker has accepted the client that came before
            with forked():
                kafka.kill()
                waiting = select.poll()  # select takes no descriptor above 1,023
                waiting.register(client, select.POLLIN)
                assert waiting.poll(10_000)
                assert client.recv(1) == b""


def test_a_child_that_stops_its_copy_leaves_the_broker_alone() -> None:
    """As when an exception leaves the ``with`` block in the child; it may still be a client."""
    with Kafka() as kafka:

        def work() -> None:
            kafka.topic("of-the-child")
            kafka.stop()

        with forked(work):
            kafka.topic("orders", records=["first"])
            assert [one.value for one in kafka.records("orders")] == [b"first"]
            assert kafka.records("of-the-child") == []
