"""What a request costs, counted, not timed: calls of the socket, of the disk, of Python functions.

``costs.tsv`` holds what fixed sequences of requests cost when it was last renewed; a test fails
when one of the numbers grows. Whoever lets it grow for a reason renews it: ``make costs``. The
numbers are of the oldest Python that is supported; later ones call less.

Each sequence is run to warm up and then ``REPEATS`` times, so that what is loaded or compiled on
first use doesn't count.
"""

import os
import socket
import sys
from collections import Counter
from pathlib import Path

import pytest
import trio

from kwire.connection import outbox
from kwire.connection.connection import Connection
from kwire.handlers.context import ConnectionInfo
from kwire.protocol.frame import encode_request
from kwire.protocol.messages.create_topics import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.heartbeat import HeartbeatRequest
from kwire.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from kwire.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kwire.record.records import BatchBuilder
from kwire.testing.in_process import running_server

COSTS = Path(__file__).parent / "costs.tsv"
RENEW = "KWIRE_RENEW_COSTS"
REPEATS = 50
TOPIC = "orders"
INFO = ConnectionInfo(1, "PLAINTEXT", "127.0.0.1", 1, "127.0.0.1", 2)


def produce(records, now_ms):
    """A batch of records for one partition."""
    builder = BatchBuilder()
    for _ in range(records):
        builder.add(now_ms, b"key", bytes(100))
    data = PartitionProduceData(index=0, records=bytes(builder.build()))
    topic = TopicProduceData(name=TOPIC, partition_data=[data])
    return encode_request(ProduceRequest(acks=-1, timeout_ms=1000, topic_data=[topic]), 11, 1, "c")


def fetch(partitions):
    """What is there in some partitions, from their start."""
    wanted = [FetchPartition(partition=n, partition_max_bytes=1000) for n in range(partitions)]
    topics = [FetchTopic(topic=TOPIC, partitions=wanted)]
    request = FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1_000_000, topics=topics)
    return encode_request(request, 12, 1, "c")


def list_offsets():
    """The end of a partition."""
    wanted = [ListOffsetsPartition(partition_index=0, timestamp=-1)]
    topics = [ListOffsetsTopic(name=TOPIC, partitions=wanted)]
    return encode_request(ListOffsetsRequest(topics=topics), 7, 1, "c")


SEQUENCES = {
    "produce, 1 record": lambda now_ms: produce(1, now_ms),
    "produce, 2 records": lambda now_ms: produce(2, now_ms),
    "produce, 100 records": lambda now_ms: produce(100, now_ms),
    "produce, 10 requests in one read": lambda now_ms: produce(1, now_ms) * 10,
    "fetch, 1 partition": lambda _: fetch(1),
    "fetch, 10 partitions": lambda _: fetch(10),
    "list offsets": lambda _: list_offsets(),
    "heartbeat of nobody": lambda _: encode_request(
        HeartbeatRequest(group_id="g", member_id="m"), 4, 1, "c"
    ),
}


class CountingSocket:
    """One end of a pair, whose calls are counted."""

    def __init__(self, counts):
        self.counts = counts
        self.near, self.far = socket.socketpair()
        for side in (self.near, self.far):
            side.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            side.setblocking(False)

    def fileno(self):
        """The descriptor."""
        return self.near.fileno()

    def recv_into(self, view):
        """Read."""
        self.counts["recv"] += 1
        return self.near.recv_into(view)

    def send(self, data, flags=0):
        """Send."""
        self.counts["send"] += 1
        return self.near.send(data, flags)

    def close(self):
        """Close both ends."""
        self.near.close()
        self.far.close()

    async def drain(self):
        """Read what was answered."""
        await trio.lowlevel.wait_readable(self.far)
        assert self.far.recv(1 << 20)


@pytest.fixture
def counts(monkeypatch):
    """Counts of what is called, by name."""
    counts = Counter()
    real = os.sendfile

    def sendfile(*arguments):
        counts["sendfile"] += 1
        return real(*arguments)

    monkeypatch.setattr(outbox.os, "sendfile", sendfile)
    return counts


def count_disk(disk, counts, monkeypatch):
    """Count the calls of a disk."""
    for name in ("open", "close", "pread", "pwrite_all", "truncate", "sync", "size"):
        real = getattr(disk, name)

        def counted(*arguments, _real=real, _name=name, **options):
            counts[f"disk.{_name}"] += 1
            return _real(*arguments, **options)

        monkeypatch.setattr(disk, name, counted)


def calls_of(function):
    """How many Python functions a call of ``function`` calls."""
    calls = 0

    def profile(_frame, event, _argument):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(None)
    return calls


async def run(connection, sock, frame, counts):
    """Serve a sequence again and again; what each time cost."""
    for _ in range(REPEATS):
        sock.far.send(frame)
        counts["calls"] += calls_of(connection.on_readable)
        await sock.drain()
    return {name: number / REPEATS for name, number in sorted(counts.items())}


async def measured(name, directory, counts, monkeypatch):
    """What one sequence costs."""
    async with running_server(directory) as server:
        client = await server.connect()
        topic = CreatableTopic(name=TOPIC, num_partitions=10, replication_factor=1)
        await client.request(CreateTopicsRequest(topics=[topic]), 5, CreateTopicsResponse)
        await client.aclose()
        sock = CountingSocket(Counter())
        poller = server.server.poller
        connection = Connection(sock, INFO, server.broker, poller, 10**8)
        poller.add(connection)
        now_ms = server.broker.now_ms()
        frame = SEQUENCES[name](now_ms)
        for warm_up in (produce(1, now_ms), frame, frame):
            sock.far.send(warm_up)
            connection.on_readable()
            await trio.lowlevel.checkpoint()
            await sock.drain()
        sock.counts = counts
        count_disk(server.broker.log_manager.disk, counts, monkeypatch)
        costs = await run(connection, sock, bytes(frame), counts)
        connection.abort_nowait()
        return costs


def read_costs():
    """What was recorded: sequence → name → number."""
    recorded = {}
    for line in COSTS.read_text(encoding="utf-8").splitlines()[1:]:
        sequence, name, number = line.split("\t")
        recorded.setdefault(sequence, {})[name] = float(number)
    return recorded


def record(sequence, costs):
    """Renew what was recorded of a sequence."""
    recorded = read_costs() if COSTS.exists() else {}
    recorded[sequence] = costs
    rows = [
        f"{sequence}\t{name}\t{number:g}"
        for sequence in SEQUENCES
        for name, number in recorded.get(sequence, {}).items()
    ]
    COSTS.write_text("\n".join(["sequence\twhat\teach time", *rows, ""]), encoding="utf-8")


@pytest.mark.parametrize("sequence", SEQUENCES)
async def test_no_request_costs_more_than_it_did(tmp_path, counts, monkeypatch, sequence):
    costs = await measured(sequence, tmp_path, counts, monkeypatch)
    if os.environ.get(RENEW):
        record(sequence, costs)
    recorded = read_costs()[sequence]
    grown = {
        name: f"{recorded.get(name, 0):g} → {number:g}"
        for name, number in costs.items()
        if number > recorded.get(name, 0)
    }
    assert not grown, f"{sequence} costs more; if that has a reason: make costs"
