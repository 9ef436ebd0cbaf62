"""A broker in this process with clients at its socket pairs, where everything happens in order.

What would make two runs differ stands still: the clock, chance, the order in which trio runs its
tasks, and the time that the poller looks around in. A socket pair delivers at once.
"""

import itertools
import os
import random
import socket
from contextlib import asynccontextmanager
from typing import NamedTuple

import trio
import trio.testing

from kwire.connection.connection import Connection
from kwire.handlers.context import ConnectionInfo
from kwire.protocol.codec import decode
from kwire.protocol.frame import decode_response_header, encode_request
from kwire.protocol.messages import message_classes
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from kwire.testing.in_process import running_server

NOW_MS = 1_700_000_000_000
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


class Message(NamedTuple):
    """A request on one of the connections."""

    request: object
    version: int
    connection: int = 0


class Desk:
    """The clients of one broker; as many connections as are asked for."""

    def __init__(self, server):
        self.broker = server.broker
        self._server = server.server
        self._far = []
        self._connections = []

    def frame(self, message):
        """The bytes of a message."""
        return bytes(encode_request(message.request, message.version, 1, "client"))

    async def send(self, connection, frame):
        """Send one or more requests; nobody else has a turn unless the socket is full."""
        while len(self._far) <= connection:
            self._connect()
        sock = self._far[connection]
        sent = sock.send(frame)
        while sent < len(frame):
            await trio.lowlevel.wait_writable(sock)
            sent += sock.send(memoryview(frame)[sent:])

    async def receive(self, connection):
        """The next response, its size before it."""
        far = self._far[connection]
        response = bytearray()
        while len(response) < 4 or len(response) < 4 + int.from_bytes(response[:4]):
            wanted = 4 + int.from_bytes(response[:4]) if len(response) >= 4 else 4
            await trio.lowlevel.wait_readable(far)
            received = far.recv(wanted - len(response))
            assert received, "the broker closed the connection"
            response += received
        return response

    async def ask(self, message):
        """The answer to a message."""
        await self.send(message.connection, self.frame(message))
        found = memoryview(await self.receive(message.connection))[4:]
        answer = message_classes(message.request.API_KEY)[1]
        _, position = decode_response_header(found, answer, message.version)
        return decode(answer, message.version, found[position:])

    async def run(self, stages):
        """Send each stage's messages together, when all is quiet; then read as many answers.

        A stage is a list of (connection, bytes, number of requests).
        """
        for stage in stages:
            for connection, frame, _ in stage:
                await self.send(connection, frame)
            if stage is not stages[-1]:
                await trio.testing.wait_all_tasks_blocked()
        for stage in stages:
            for connection, _, requests in stage:
                for _ in range(requests):
                    await self.receive(connection)
        await trio.testing.wait_all_tasks_blocked()

    async def create_topic(self, name, partitions):
        """Create a topic."""
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        response = await self.ask(Message(CreateTopicsRequest(topics=[topic]), 5))
        assert response.topics[0].error_code == 0

    async def find_coordinator(self, kind, key):
        """Wait until the coordinator of a group (0) or transactional id (1) is there."""
        request = FindCoordinatorRequest(key_type=kind, coordinator_keys=[key])
        while (await self.ask(Message(request, 4))).coordinators[0].error_code:
            await trio.testing.wait_all_tasks_blocked()

    def close(self):
        """End the connections."""
        for connection in self._connections:
            connection.abort_nowait()
        for far in self._far:
            far.close()

    def _connect(self):
        near, far = socket.socketpair()
        for side in (near, far):
            side.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
            side.setblocking(False)
        info = ConnectionInfo(len(self._far), "PLAINTEXT", "127.0.0.1", 1, "127.0.0.1", 2)
        poller = self._server.poller
        connection = Connection(near, info, self.broker, poller, 10**8)
        poller.add(connection)
        self._connections.append(connection)
        self._far.append(far)


def stand_still(monkeypatch):
    """Take chance and the time that passes out of the scheduler and the poller."""
    monkeypatch.setattr(trio._core._run, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
    monkeypatch.setattr(trio._core._run, "_r", random.Random(1))
    looks = itertools.count()
    monkeypatch.setattr("kwire.connection.poller.perf_counter", lambda: next(looks) / 10_000)
    # On one processor the poller doesn't look around before it sleeps.
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0}, raising=False)


@asynccontextmanager
async def desk(directory):
    """A broker of its own."""
    async with running_server(directory, SETTINGS, now_ms=lambda: NOW_MS) as server:
        server.broker.random.seed(1)
        clients = Desk(server)
        try:
            yield clients
        finally:
            clients.close()
