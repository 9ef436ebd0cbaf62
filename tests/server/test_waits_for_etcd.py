"""A broker that is started before its etcd waits for it; what waiting can't mend ends the start."""

import os
import signal
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager

import pytest

from kwire.config.broker import ONE_REPLICA
from kwire.testing.process import BrokerFailed, BrokerProcess
from kwire.testing.waiting import wait_until
from tests.server.clusters import create
from tests.support.etcd import MISSING, Etcd, find_etcd
from tests.support.ports import free_port

pytestmark = pytest.mark.processes

WAITS = "waiting up to 15 s for etcd"


@pytest.fixture
def broker(tmp_path) -> Iterator[BrokerProcess]:
    """A broker whose etcd is at a free port; it isn't started."""
    settings = {**ONE_REPLICA, "kwire.metadata.store": f"etcd://127.0.0.1:{free_port()}/p"}
    found = BrokerProcess(tmp_path / "data", settings)
    yield found
    found.kill()


@contextmanager
def _starting(broker: BrokerProcess) -> Iterator["Future[BrokerProcess]"]:
    """The start of a broker, in a thread, once the log says that it waits."""
    with ThreadPoolExecutor(1) as threads:
        started = threads.submit(broker.start)
        wait_until(lambda: WAITS in broker.log() or started.done(), what="a broker that waits")
        yield started


def _port(broker: BrokerProcess) -> int:
    return int(broker.settings["kwire.metadata.store"].removesuffix("/p").rpartition(":")[2])


def test_an_etcd_that_comes_later(broker):
    """One line says for what the start waits; then the broker serves."""
    if find_etcd() is None:
        pytest.skip(MISSING)
    with _starting(broker) as started, Etcd(port=_port(broker)) as etcd:
        assert started.result(30) is broker
        create(broker, "t", 1)
        assert broker.log().count(WAITS) == 1
        assert f"{WAITS}: no answer from etcd at {etcd.members[0].endpoint}" in broker.log()
        broker.stop()


def test_a_signal_ends_the_wait(broker):
    """As it ends every other start: with one line, and no traceback."""
    with _starting(broker) as started:
        os.kill(broker.pid, signal.SIGTERM)
        with pytest.raises(BrokerFailed) as failed:
            started.result(30)
    assert str(failed.value).endswith("stopped before the broker was ready")
    assert "Traceback" not in str(failed.value)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\nno", "HTTP 404 'no' is no answer"),
        (b"220 mail.example.com ESMTP\r\n\r\n", "it doesn't speak HTTP"),
    ],
)
def test_what_is_no_etcd_is_not_waited_for(broker, answer: bytes, says: str):
    """Another server has its port: the start ends at once with one line that says what to do."""
    with closing(socket.create_server(("127.0.0.1", _port(broker)))) as listening:
        threading.Thread(target=_answer, args=(listening, answer), daemon=True).start()
        with pytest.raises(BrokerFailed) as failed:
            broker.start()
    line = str(failed.value).splitlines()[-1]
    assert f"kwire: no etcd answers at 127.0.0.1:{_port(broker)}: {says}" in line
    assert "name etcd's client port in kwire.metadata.store" in line
    assert WAITS not in broker.log()


def _answer(listening: socket.socket, answer: bytes) -> None:
    """Give every connection this answer, until the listener is closed."""
    while True:
        try:
            connection, _ = listening.accept()
        except OSError:
            return
        with connection:
            connection.recv(65536)
            connection.sendall(answer)
