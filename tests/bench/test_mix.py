"""The mix of clients: how it counts and what it makes of times; no timing asserted."""

import socket
from collections import deque

from bench.mix import RECORD_BYTES, RECORDS, Client, Consumer, percentiles_us
from bench.rows.common import batch


def test_percentiles_reach_to_one_in_ten_thousand() -> None:
    """In microseconds, whatever the order."""
    taken = [n / 1e6 for n in range(10_001)][::-1]
    found = {name: round(value) for name, value in percentiles_us(taken).items()}
    assert found == {"p50": 5000, "p99": 9900, "p99.9": 9990, "p99.99": 9999}


def test_responses_are_cut_where_they_end() -> None:
    """However they arrive."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        client = Client(f"127.0.0.1:{server.getsockname()[1]}")
        with client.socket, server.accept()[0] as broker:
            broker.sendall(b"\0\0\0\3abc\0\0\0\5de")
            lengths = client.responses()
            broker.sendall(b"fgh")
            while len(lengths) < 2:
                lengths += client.responses()
    assert lengths == [7, 9]


def test_a_consumer_counts_batches_and_asks_for_the_next_offset() -> None:
    """An empty response counts as none."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        consumer = Consumer(f"127.0.0.1:{server.getsockname()[1]}", "topic", 3, 100)
        on_the_way = deque([0.0, 0.0, 0.0])
        with consumer.socket, server.accept()[0] as broker:
            rest = bytes(70)
            two = rest + 2 * batch(RECORDS, RECORD_BYTES)
            for answer in (rest, two):
                broker.sendall(len(answer).to_bytes(4) + answer)
                consumer.receive(on_the_way)
            asked = broker.recv(4096)
    assert len(consumer.taken) == 2
    assert len(on_the_way) == 1
    assert (100).to_bytes(8) in asked
    assert (100 + 2 * RECORDS).to_bytes(8) in asked
