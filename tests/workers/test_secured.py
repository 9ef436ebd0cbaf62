"""Two workers with the files of ``kwire secure init --workers 2``: TLS, also in between."""

import shlex
import subprocess
import sys
from contextlib import ExitStack

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.testing.waiting import wait_until
from tests.support.ports import free_ports
from tests.workers.clients import WAIT_S, read

KWIRE = [sys.executable, "-m", "kwire"]
PARTITIONS, LEDGER, GROUP = 4, "ledger", "billing"


@pytest.fixture
def made(tmp_path):
    """The settings of librdkafka for the first user of the workers, and their log."""
    directory, first = tmp_path / "secured", free_ports(2)
    words = ("--workers", "2", "--port", str(first))
    command = [*KWIRE, "secure", "init", str(directory), *words]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    [serve] = [line for line in said.splitlines() if line.startswith("kwire serve")]
    log = tmp_path / "log"
    few = ("-o", "offsets.topic.num.partitions=4", "-o", "transaction.state.log.num.partitions=4")
    with ExitStack() as stack:
        errors = stack.enter_context(log.open("w"))
        command = [*KWIRE, *shlex.split(serve)[1:], *few]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True)
        stack.enter_context(process)
        stack.callback(process.terminate)
        assert "workers=2" in process.stdout.readline(), log.read_text()
        login = {
            "bootstrap.servers": f"127.0.0.1:{first},127.0.0.1:{first + 1}",
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(directory / "ca.pem"),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": "admin",
            "sasl.password": (directory / "admin.password").read_text(),
        }
        yield login, log


def test_a_transaction_over_both_workers(made):
    """Its coordinator has markers written by the other worker, over TLS with a certificate."""
    login, log = made
    admin = AdminClient(login)
    admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(WAIT_S)

    def leaders():
        partitions = admin.list_topics("t", timeout=WAIT_S).topics["t"].partitions.values()
        return {partition.leader for partition in partitions}

    wait_until(lambda: leaders() == {1, 2}, what="partitions on both workers")
    for number in range(4):  # coordinators are on both workers
        producer = Producer({**login, "transactional.id": f"{LEDGER}-{number}"})
        producer.init_transactions(WAIT_S)
        producer.begin_transaction()
        for index in range(PARTITIONS):
            producer.produce("t", f"{number}-{index}", partition=index)
        producer.commit_transaction(WAIT_S)
    consumer = Consumer({**login, "group.id": GROUP, "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    wanted = sorted(f"{number}-{index}" for number in range(4) for index in range(PARTITIONS))
    assert read(len(wanted), consumer) == wanted
    consumer.close()
    assert "bug in" not in log.read_text()


def test_without_a_way_to_log_in_the_line_says_what_to_do(tmp_path):
    """The files for one broker have none: its password is known to nobody."""
    directory = tmp_path / "secured"
    port = str(free_ports(2))
    init = [*KWIRE, "secure", "init", str(directory), "--port", port]
    subprocess.run(init, capture_output=True, check=True)
    command = [*KWIRE, "serve", "--config", str(directory / "server.properties"), "--workers", "2"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "or name a listener of their own in inter.broker.listener.name, as kwire" in done.stderr
