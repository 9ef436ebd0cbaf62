"""A plain ``pip install`` serves all that the broker advertises: nothing needs an extra.

The broker runs in a process that can import the standard library, kwire and what kwire depends on,
whatever else is installed beside them for tests.
"""

import re
import socket
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from kwire.handlers import APIS
from kwire.protocol.codec import decode
from kwire.protocol.frame import decode_response_header, encode_request
from kwire.protocol.messages import message_classes
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kwire.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.protocol.messages.list_transactions import ListTransactionsRequest
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.protocol.types import Request
from kwire.record.compression import Compression
from kwire.record.records import BatchBuilder
from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until
from tests.handlers import test_every_version as every

ROOT = Path(__file__).parents[1]

BLOCKER = '''
import sys

class Blocker:
    """Finds nothing of what doesn't belong to a plain install, and writes down who asked."""

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {blocked!r}:
            with open({asked!r}, "a") as asked:
                asked.write(name + "\\n")
            raise ModuleNotFoundError(f"{{name}} is no part of a plain install", name=name)
        return None

sys.meta_path.insert(0, Blocker())
'''


def core_distributions() -> set[str]:
    """The distributions that a plain install of kwire brings, by their normalized names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    found: set[str] = {"kwire"}
    left = list(project["dependencies"])
    while left:
        requirement = left.pop()
        name = re.split(r"[^A-Za-z0-9._-]", requirement)[0].lower().replace("_", "-")
        if "extra ==" in requirement or name in found:
            continue
        try:
            left += metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue  # for another platform
        found.add(name)
    return found


def _blocked() -> set[str]:
    """The packages that tests have and a plain install hasn't."""
    core = core_distributions()
    return {
        package
        for package, owners in metadata.packages_distributions().items()
        if not core & {owner.lower().replace("_", "-") for owner in owners}
    }


class _Client:
    """One connection to the broker."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=30)
        self._file = self._socket.makefile("rb")

    def ask(self, request: Request, version: int) -> Any:
        """The response to a request."""
        self._socket.sendall(bytes(encode_request(request, version, 1, "plain")))
        frame = self._file.read(int.from_bytes(self._file.read(4)))
        response = message_classes(request.API_KEY)[1]
        _, position = decode_response_header(frame, response, version)
        return decode(response, version, memoryview(frame)[position:])

    def close(self) -> None:
        """Close it."""
        self._file.close()
        self._socket.close()


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that names what was asked for in vain, of processes that are started from now on."""
    asked = tmp_path / "asked"
    place = tmp_path / "site"
    place.mkdir()
    text = BLOCKER.format(blocked=sorted(_blocked()), asked=str(asked))
    (place / "sitecustomize.py").write_text(text, encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(place))
    asked.touch()
    return asked


@pytest.fixture
def client(asked: Path, tmp_path: Path) -> Iterator[_Client]:
    """A client of a broker that has no more than a plain install."""
    with BrokerProcess(tmp_path / "data") as broker:
        client = _Client(broker.bootstrap)
        yield client
        client.close()


def _create(client: _Client, name: str, **configs: str) -> bytes:
    """The id of a new topic."""
    topic = CreatableTopic(
        name=name,
        num_partitions=1,
        replication_factor=1,
        configs=[
            CreatableTopicConfig(name=n.replace("_", "."), value=v) for n, v in configs.items()
        ],
    )
    [created] = client.ask(CreateTopicsRequest(topics=[topic]), 7).topics
    assert created.error_code == 0
    return bytes(created.topic_id)


def test_what_is_blocked_is_what_only_tests_have() -> None:
    """The test that follows would prove nothing if it blocked nothing."""
    assert {"pytest", "hypothesis", "kafka", "aiokafka"} <= _blocked()
    assert not {"trio", "re2", "cramjam", "lz4", "zstandard", "crc32c", "attr"} & _blocked()


def test_a_plain_install_answers_every_api(client: _Client, asked: Path) -> None:
    """The newest version of each; nothing else than its dependencies is asked for."""
    topic_id = _create(client, every.TOPIC)
    for key_type, name in ((0, every.GROUP), (1, every.LEDGER)):
        request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[name])
        wait_until(lambda r=request: client.ask(r, 4).coordinators[0].error_code == 0)
    for key, api in APIS.items():
        version = api.max_version
        known = every.topic_requests(version, topic_id) | every.group_requests(version, topic_id)
        known |= every.admin_requests(version, topic_id) | every.transaction_requests(version)
        known |= every.consumer_group_requests(version)
        request = known.get(api.name, message_classes(key)[0]())
        if isinstance(request, ApiVersionsRequest):
            request.client_software_name = request.client_software_version = "test"
        assert client.ask(request, version) is not None, api.name
    assert asked.read_text() == ""


def test_a_plain_install_serves_regular_expressions(client: _Client, asked: Path) -> None:
    """Those of consumer groups, and those of transactional ids."""
    _create(client, "orders")
    request = FindCoordinatorRequest(coordinator_keys=["g"])
    wait_until(lambda: client.ask(request, 4).coordinators[0].error_code == 0)
    joined = client.ask(
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            rebalance_timeout_ms=10_000,
            subscribed_topic_regex="ord.*",
            topic_partitions=[],
        ),
        1,
    )
    assert (joined.error_code, joined.error_message) == (0, None)
    epoch = joined.member_epoch

    def assigned() -> list[list[int]]:
        """What a heartbeat brings; the topics of an expression come with a later one."""
        nonlocal epoch
        beat = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="m", member_epoch=epoch, topic_partitions=[]
        )
        told = client.ask(beat, 1)
        assert not told.error_code, told.error_message
        epoch = told.member_epoch
        return (
            [one.partitions for one in told.assignment.topic_partitions] if told.assignment else []
        )

    assert wait_until(assigned) == [[0]]
    listed = client.ask(ListTransactionsRequest(transactional_id_pattern="l.*"), 2)
    assert listed.error_code == 0
    assert asked.read_text() == ""


@pytest.mark.parametrize("stored", [codec for codec in Compression if codec])
def test_a_plain_install_serves_every_codec(
    client: _Client, asked: Path, stored: Compression
) -> None:
    """Batches are opened, whatever they were compressed with, and compressed anew."""
    topic_id = _create(client, "t", compression_type=stored.name.lower())
    for codec in Compression:
        builder = BatchBuilder()
        builder.add(1_700_000_000_000, b"key", b"value")
        data = PartitionProduceData(index=0, records=bytes(builder.build(compression=codec)))
        topic = TopicProduceData(topic_id=topic_id, partition_data=[data])
        answer = client.ask(ProduceRequest(acks=-1, topic_data=[topic]), 13)
        [partition] = answer.responses[0].partition_responses
        assert partition.error_code == 0, codec.name
    assert asked.read_text() == ""
