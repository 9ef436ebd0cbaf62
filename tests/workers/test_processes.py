"""Two workers as processes, as stock clients see them, and their ends: by kills and by signals."""

import os
import signal
import socket
from tempfile import TemporaryDirectory

import pytest
from confluent_kafka import Producer, TopicPartition

from kwire.protocol.messages.metadata import MetadataRequest, MetadataResponse
from kwire.testing.asking import Asker
from kwire.testing.process import BrokerFailed
from kwire.testing.waiting import wait_until
from tests.server.clusters import create, leaders
from tests.support.ports import free_port
from tests.workers.clients import WAIT_S, consumer, produce, read, stored, wait_for_shares

PARTITIONS = 4


class At:
    """One worker, for the questions of ``tests.server.clusters``."""

    def __init__(self, address):
        self.bootstrap = address


def _make_topic(workers):
    create(At(workers.addresses[0]), "t", PARTITIONS)
    for address in workers.addresses:
        wait_until(lambda a=address: sorted(leaders(At(a), "t")) == [1, 1, 2, 2], what="the topic")


def test_stock_clients_use_both_workers(start):
    """Each worker names both; a group's and a transaction's partitions are on both of them."""
    workers = start()
    for address in workers.addresses:
        answer = Asker().ask(address, MetadataRequest(topics=None), 12, MetadataResponse)
        assert [(n.node_id, n.host, n.port) for n in answer.brokers] == [
            (number, "127.0.0.1", port) for number, port in enumerate(workers.ports(), 1)
        ]
    _make_topic(workers)
    members = [consumer(address, "g") for address in workers.addresses]
    for member in members:
        member.subscribe(["t"])
    wait_for_shares(members, PARTITIONS // len(members))
    values = produce(workers.addresses[1], "t", PARTITIONS, "a")
    assert read(len(values), *members) == values
    members[0].commit(asynchronous=False)

    producer = Producer({"bootstrap.servers": workers.bootstrap, "transactional.id": "tx"})
    producer.init_transactions(WAIT_S)
    for name, end in (("b", producer.commit_transaction), ("c", producer.abort_transaction)):
        producer.begin_transaction()
        for index in range(PARTITIONS):
            producer.produce("t", f"{name}{index}", partition=index)
        offsets = [TopicPartition("t", 0, 7)]
        producer.send_offsets_to_transaction(offsets, members[0].consumer_group_metadata(), WAIT_S)
        end(WAIT_S)
    for member in members:
        member.close()
    committed = sorted([*values, *(f"b{index}" for index in range(PARTITIONS))])
    assert stored(workers.bootstrap, "t", PARTITIONS, len(committed)) == committed
    for name in ("__consumer_offsets", "__transaction_state"):
        assert sorted(leaders(At(workers.addresses[0]), name)) == [1, 1, 2, 2]


def test_a_killed_worker_is_back_with_its_records(start):
    """At the same port, and the other worker serves meanwhile."""
    workers = start()
    _make_topic(workers)
    values = produce(workers.bootstrap, "t", PARTITIONS, "a")
    for number in (2, 1):
        before = workers.pids()
        os.kill(before[0 if number == 1 else -1], signal.SIGKILL)
        said = f"worker {number} serves again"
        wait_until(lambda s=said: s in workers.process.log(), what=said)
        assert len(set(workers.pids()) - set(before)) == 1
    assert stored(workers.bootstrap, "t", PARTITIONS, len(values)) == values
    for address in workers.addresses:
        assert sorted(leaders(At(address), "t")) == [1, 1, 2, 2]
    assert "worker 2: it was ended by SIGKILL; starting it again" in workers.process.log()


def test_a_worker_that_hangs_is_started_again(start):
    """It is stopped by SIGSTOP, so that it gives no sign of life; its records are there again."""
    workers = start(broker_session_timeout_ms="3000")
    _make_topic(workers)
    values = produce(workers.bootstrap, "t", PARTITIONS, "a")
    os.kill(workers.pids()[1], signal.SIGSTOP)
    wait_until(lambda: "worker 2 serves again" in workers.process.log(), what="its return")
    assert "worker 2: it gave no sign of life for 3 s" in workers.process.log()
    assert stored(workers.bootstrap, "t", PARTITIONS, len(values)) == values


def test_workers_end_with_their_supervisor(start):
    """It is killed; nothing acknowledged is lost, and the next start works at once."""
    workers = start()
    _make_topic(workers)
    values = produce(workers.bootstrap, "t", PARTITIONS, "a")
    cluster_id = workers.process.cluster_id
    workers.kill_supervisor()
    workers = start()
    assert workers.process.cluster_id == cluster_id
    assert "was not closed cleanly" not in workers.process.log()
    assert stored(workers.bootstrap, "t", PARTITIONS, len(values)) == values


def test_all_start_again_when_the_template_has_ended(start):
    """In the same process and at the same ports; a second time at once, the command ends."""
    port = free_port()
    workers = start(2, f"127.0.0.1:{port}")
    _make_topic(workers)
    values = produce(workers.bootstrap, "t", PARTITIONS, "a")
    before = workers.pids()
    workers.kill_template()
    assert stored(workers.bootstrap, "t", PARTITIONS, len(values)) == values
    assert len(workers.pids()) == 2
    assert not set(workers.pids()).intersection(before)
    log = workers.process.log()
    assert log.count("starts workers has ended; all workers stop and start again") == 1
    assert "was not closed cleanly" not in log
    assert "other brokers may lead" not in log
    workers.kill_template()
    assert workers.wait_for_end() == 1
    log = workers.process.log()
    assert log.count("all workers stop and start again") == 1
    assert "kwire: the process that starts workers has ended\n" in log


@pytest.fixture
def service_manager(monkeypatch):
    """The socket of a service manager. Its path is short, because such paths have 108 bytes."""
    with (
        TemporaryDirectory(prefix="kwire-") as directory,
        socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listening,
    ):
        listening.bind(f"{directory}/s")
        monkeypatch.setenv("NOTIFY_SOCKET", f"{directory}/s")
        listening.settimeout(WAIT_S)
        yield listening


def test_sigterm_stops_all_cleanly(start, service_manager):
    """As for one broker: exit code 0, one ready, and the next start has nothing to recover."""
    workers = start(kwire_workers="3", count=None)  # a file may have the setting as well
    assert len(workers.addresses) == 3
    create(At(workers.addresses[0]), "t", PARTITIONS)
    values = produce(workers.bootstrap, "t", PARTITIONS, "a")
    assert workers.stop() == 0
    told = [service_manager.recv(4096).decode().partition("\n")[0] for _ in range(3)]
    assert told == ["STATUS=starting: opening the logs", "READY=1", "STOPPING=1"]
    lines = workers.process.log().splitlines()
    for number in (1, 2, 3):
        (line,) = [one for one in lines if f" worker {number} " in one and "stopped cleanly" in one]
        assert "every log is flushed" in line
    workers = start(3)
    assert stored(workers.bootstrap, "t", PARTITIONS, len(values)) == values
    assert "was not closed cleanly" not in workers.process.log()


def test_workers_on_every_interface_serve_after_one_warning(start):
    """It names the addresses of all of them; nothing ends because of it."""
    workers = start(2, "*:0")
    create(At(f"127.0.0.1:{workers.ports()[0]}"), "t", 1)
    assert workers.stop() == 0
    log = workers.process.log()
    assert log.count("kwire asks nobody for a password") == 1
    assert f"on {workers.addresses[0]}, {workers.addresses[1]} kwire asks nobody" in log


def test_a_port_in_use_ends_the_start(start):
    """One line names the worker and the address, and nothing is left behind."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", free_port()))
        taken.listen()
        port = taken.getsockname()[1] - 1
        with pytest.raises(BrokerFailed, match=f"kwire: worker 2: cannot listen on .*:{port + 1}"):
            start(2, f"127.0.0.1:{port}")


def test_the_directory_of_workers_is_in_use(start):
    """A broker that is alone must not write the same metadata."""
    start()
    with pytest.raises(BrokerFailed, match="in use by another process"):
        start(None)
