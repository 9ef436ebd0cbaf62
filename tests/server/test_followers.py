"""Three brokers as processes replicate a topic, on a real etcd."""

import pytest

from kwire.protocol.messages.produce import (
    ProduceResponse,
)
from kwire.testing.asking import Asker, NoAnswer
from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until
from tests.server.clusters import create, leaders, metadata
from tests.support.records import batch
from tests.support.requests import produce_request

pytestmark = pytest.mark.processes

TOPIC = "t"
PARTITIONS = 3


def _write(brokers: dict[int, BrokerProcess], alive: BrokerProcess, index: int, text: str) -> None:
    """Write a record, acks=all, to whoever leads; raises what goes wrong."""
    leader = leaders(alive, TOPIC)[index]
    assert leader >= 0
    request = produce_request(TOPIC, {index: batch(text.encode() * 20)}, timeout_ms=5000)
    answer = Asker().ask(brokers[leader].bootstrap, request, 9, ProduceResponse)
    code = answer.responses[0].partition_responses[0].error_code
    assert code == 0, code


def _files(broker: BrokerProcess, index: int) -> bytes:
    """The segments of a partition on a broker's disk."""
    directory = broker.data_dir / f"{TOPIC}-{index}"
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def _in_sync(broker: BrokerProcess) -> list[int]:
    found = [topic for topic in metadata(broker).topics if topic.name == TOPIC]
    return [len(one.isr_nodes) for topic in found for one in topic.partitions]


def _is_written(
    brokers: dict[int, BrokerProcess], alive: BrokerProcess, index: int, text: str
) -> bool:
    try:
        _write(brokers, alive, index, text)
    except (AssertionError, NoAnswer):
        return False
    return True


def _kill_and_restart(brokers: dict[int, BrokerProcess], node_id: int) -> None:
    """Writes go on with the others, and the one that comes back gets in sync."""
    alive, text = brokers[node_id % 3 + 1], f"after {node_id}"
    brokers[node_id].kill()
    for index in range(PARTITIONS):
        wait_until(lambda index=index: _is_written(brokers, alive, index, text), what="a leader")
    brokers[node_id].restart()
    wait_until(lambda: _in_sync(alive) == [3] * PARTITIONS, what="all in sync")


def _are_equal(brokers: dict[int, BrokerProcess], index: int) -> bool:
    return len({_files(broker, index) for broker in brokers.values()}) == 1


def test_a_killed_leader_is_replaced_and_comes_back(start) -> None:
    """In the end all replicas have the same bytes."""
    brokers = {node_id: start(node_id) for node_id in (1, 2, 3)}
    wait_until(lambda: len(metadata(brokers[1]).brokers) == 3, what="three brokers")
    create(brokers[1], TOPIC, PARTITIONS, replicas=3)
    wait_until(lambda: sorted(leaders(brokers[2], TOPIC)) == [1, 2, 3], what="leaders")
    for number in range(30):
        _write(brokers, brokers[1], number % PARTITIONS, f"first {number}")
    for node_id in brokers:
        _kill_and_restart(brokers, node_id)
    for index in range(PARTITIONS):
        wait_until(lambda index=index: _are_equal(brokers, index), what="equal replicas")
        assert len(_files(brokers[1], index)) > 10 * 100
