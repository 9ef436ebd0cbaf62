"""A client over TLS 1.3 for measurements: prints how much it did, as JSON.

``python -m bench.tls_load KIND PORT CA SECONDS``. Produce writes to the topic ``tls``, of which
retention deletes the old records. Fetch reads the first megabyte of a topic of its own, which is
filled before. Handshakes are full ones: each is a new connection, with a request after it.
"""

import json
import os
import socket
import ssl
import sys
import time

from kwire.protocol.codec import decode
from kwire.protocol.frame import decode_response_header, encode_request
from kwire.protocol.messages.api_versions import ApiVersionsRequest
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from kwire.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from kwire.record.records import BatchBuilder

TOPICS = {"produce": "tls", "fetch": "tls-read"}
RECORD_BYTES, RECORDS = 1000, 256
FETCH_BYTES = 1 << 20
IN_FLIGHT = 5


def produce_frame(topic: str) -> bytes:
    """A request with one batch of random records, 256 KB."""
    builder = BatchBuilder()
    now_ms = int(time.time() * 1000)  # retention deletes records of 1970
    for _ in range(RECORDS):
        builder.add(now_ms, None, os.urandom(RECORD_BYTES))
    part = PartitionProduceData(index=0, records=bytes(builder.build()))
    data = [TopicProduceData(name=topic, partition_data=[part])]
    request = ProduceRequest(acks=1, timeout_ms=30_000, topic_data=data)
    return bytes(encode_request(request, 9, 1, "tls"))


def fetch_frame(topic: str) -> bytes:
    """A request for the topic's first megabyte."""
    part = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=FETCH_BYTES)
    request = FetchRequest(
        max_wait_ms=500,
        min_bytes=1,
        max_bytes=FETCH_BYTES,
        topics=[FetchTopic(topic=topic, partitions=[part])],
    )
    return bytes(encode_request(request, 12, 1, "tls"))


def context(ca: str) -> ssl.SSLContext:
    """TLS 1.3 only."""
    found = ssl.create_default_context(cafile=ca)
    found.minimum_version = ssl.TLSVersion.TLSv1_3
    return found


class Client:
    """One connection."""

    def __init__(self, port: int, tls: ssl.SSLContext) -> None:
        sock = socket.create_connection(("127.0.0.1", port), 30)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock = tls.wrap_socket(sock, server_hostname="localhost")
        self._buffer = memoryview(bytearray(FETCH_BYTES * 2))

    def receive(self) -> int:
        """Read one response; returns its size."""
        return len(self._receive())

    def _receive(self) -> memoryview:
        return self._read(int.from_bytes(self._read(4)))

    def create_topic(self, name: str) -> None:
        """Have the broker create a topic, as clients do, and wait for its leader."""
        request = MetadataRequest(topics=[MetadataRequestTopic(name=name)])
        frame = bytes(encode_request(request, 4, 1, "tls"))
        while True:
            self.sock.sendall(frame)
            answer = self._receive()
            _, start = decode_response_header(answer, MetadataResponse, 4)
            [topic] = decode(MetadataResponse, 4, answer[start:]).topics
            if not topic.error_code and not topic.partitions[0].error_code:
                return
            time.sleep(0.1)

    def _read(self, size: int) -> memoryview:
        view = self._buffer[:size]
        count = 0
        while count < size:
            got = self.sock.recv_into(view[count:])
            if not got:
                raise ConnectionError("the broker closed the connection")
            count += got
        return view


def fill(client: Client, topic: str) -> None:
    """Write until a fetch has enough; a topic that is new may refuse the first requests."""
    produce, fetch = produce_frame(topic), fetch_frame(topic)
    size = 0
    while size < FETCH_BYTES // 2:
        for frame in (produce, fetch):
            client.sock.sendall(frame)
            size = client.receive()


def stream(client: Client, frame: bytes, seconds: float, least_bytes: int) -> dict[str, float]:
    """Send a request again and again, with some in flight; responses have ``least_bytes``."""
    began_s = time.perf_counter()
    end_s = began_s + seconds
    sent = received = in_flight = 0
    while time.perf_counter() < end_s or in_flight:
        while in_flight < IN_FLIGHT and time.perf_counter() < end_s:
            client.sock.sendall(frame)
            sent += len(frame)
            in_flight += 1
        size = client.receive()
        if size < least_bytes:
            raise SystemExit(f"a response of {size} bytes; expected {least_bytes} or more")
        received += size
        in_flight -= 1
    took_s = time.perf_counter() - began_s
    return {"mb": max(sent, received) / 1e6, "seconds": took_s}


def shake_hands(port: int, tls: ssl.SSLContext, seconds: float) -> dict[str, float]:
    """Connect again and again."""
    frame = bytes(encode_request(ApiVersionsRequest(), 0, 1, "tls"))
    began_s = time.perf_counter()
    count = 0
    while time.perf_counter() < began_s + seconds:
        client = Client(port, tls)
        client.sock.sendall(frame)
        client.receive()
        client.sock.close()
        count += 1
    return {"count": count, "seconds": time.perf_counter() - began_s}


def main() -> None:
    """Run one kind of load."""
    kind, port, ca, seconds = sys.argv[1:]
    tls = context(ca)
    if kind == "handshakes":
        found = shake_hands(int(port), tls, float(seconds))
    else:
        client, topic = Client(int(port), tls), TOPICS[kind]
        client.create_topic(topic)
        if kind == "fetch":
            fill(client, topic)
            found = stream(client, fetch_frame(topic), float(seconds), FETCH_BYTES // 2)
        else:
            found = stream(client, produce_frame(topic), float(seconds), 1)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
