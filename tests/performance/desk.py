"""A broker in this process with clients at its socket pairs, where everything happens in order.

What would make two runs differ stands still: the clock, chance, the order in which trio runs its
tasks, and the time that the poller looks around in. A socket pair delivers at once.
"""

import os
import random
import socket
from contextlib import asynccontextmanager
from functools import cache
from typing import NamedTuple

import trio
import trio.testing

from kwire.clock import Clock
from kwire.connection.connection import Connection
from kwire.handlers.lib.context import ConnectionInfo
from kwire.protocol.codec import decode
from kwire.protocol.frame import decode_response_header, encode_request
from kwire.protocol.messages import message_classes
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest
from tests.performance.answers import brings_records, error_codes
from tests.support.asking import GROUP_KEY, Asks
from tests.support.clock import step_clock
from tests.support.in_process import running_server

NOW_MS = 1_700_000_000_000
SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
    "transaction.state.log.num.partitions": "1",
}


class Message(NamedTuple):
    """A request on one of the connections, and what its answer has to be like.

    What is refused costs little, so every answer is looked at: each ``error_code`` in it has to be
    the one given here, and so many partitions have to bring records.
    """

    request: object
    version: int
    connection: int = 0
    error_code: int = 0
    brings: int = 0


class Sent(NamedTuple):
    """A message as it is sent, so many times in one piece."""

    message: Message
    frames: bytes
    times: int = 1


def sent(message, times=1):
    """A message, ready to be sent."""
    frame = bytes(encode_request(message.request, message.version, 1, "client"))
    return Sent(message, frame * times, times)


@cache
def answer_class(api_key):
    """What answers a request; looked up once, for a look leaves things in memory."""
    return message_classes(api_key)[1]


class Desk(Asks):
    """The clients of one broker; as many connections as are asked for."""

    def __init__(self, server):
        self.broker = server.broker
        self._server = server.server
        self._far = []
        self._connections = []

    async def send(self, connection, frame):
        """Send one or more requests; nobody else has a turn unless the socket is full."""
        while len(self._far) <= connection:
            self._connect()
        sock = self._far[connection]
        done = sock.send(frame)
        while done < len(frame):
            await trio.lowlevel.wait_writable(sock)
            done += sock.send(memoryview(frame)[done:])

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

    async def is_closed(self, connection):
        """Whether the broker ends a connection without another word."""
        far = self._far[connection]
        await trio.lowlevel.wait_readable(far)
        return not far.recv(1)

    async def answer(self, message):
        """The next answer to a message that was sent, whatever it says."""
        found = memoryview(await self.receive(message.connection))[4:]
        answer = answer_class(message.request.API_KEY)
        _, position = decode_response_header(found, answer, message.version)
        return decode(answer, message.version, found[position:])

    async def expect(self, message):
        """The next answer to a message that was sent, which is like it has to be."""
        answer = await self.answer(message)
        name = type(answer).__name__
        unexpected = set(error_codes(answer)) - {message.error_code}
        assert not unexpected, f"{name} has error codes {unexpected}"
        brings = brings_records(answer)
        assert brings == message.brings, f"{name} brings records of {brings} partitions"
        return answer

    async def ask(self, message):
        """Send a message; its answer, which is like it has to be."""
        await self.send(message.connection, sent(message).frames)
        return await self.expect(message)

    async def run(self, stages):
        """Send each stage's messages together, when all is quiet; then read and check the answers.

        A stage is a list of what is ``Sent``.
        """
        for stage in stages:
            for message, frames, _ in stage:
                await self.send(message.connection, frames)
            if stage is not stages[-1]:
                await trio.testing.wait_all_tasks_blocked()
        for stage in stages:
            for message, _, times in stage:
                for _ in range(times):
                    await self.expect(message)
        await trio.testing.wait_all_tasks_blocked()

    async def request(self, request, version, _answer, /):
        """Send a request over the first connection; its answer, which has no error."""
        return await self.ask(Message(request, version))

    async def find_coordinator(self, key, key_type=GROUP_KEY):
        """Wait until the coordinator is there."""
        message = Message(FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key]), 4)
        is_found = False
        while not is_found:
            await self.send(message.connection, sent(message).frames)
            is_found = not any(error_codes(await self.answer(message)))
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


# Private attributes: trio's scheduler takes turns by chance, and gives no other way to prevent it.
def stand_still(monkeypatch):
    """Take chance and the time that passes out of the scheduler and the poller."""
    monkeypatch.setattr(trio._core._run, "_ALLOW_DETERMINISTIC_SCHEDULING", True)
    monkeypatch.setattr(trio._core._run, "_r", random.Random(1))
    step_clock(monkeypatch, "kwire.connection.poller", 0.0001)
    # On one processor the poller doesn't look around before it sleeps.
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0}, raising=False)


@asynccontextmanager
async def desk(directory, settings=None):
    """A broker of its own, with these settings besides those of every desk."""
    own = SETTINGS | (settings or {})
    async with running_server(
        directory, own, clock=Clock(lambda: NOW_MS, lambda: NOW_MS)
    ) as server:
        server.broker.random.seed(1)
        clients = Desk(server)
        try:
            yield clients
        finally:
            clients.close()
