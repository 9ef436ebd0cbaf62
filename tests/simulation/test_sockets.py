"""Sockets that lead to the simulated network: its faults and its time are theirs."""

import socket
from collections.abc import Awaitable, Callable
from random import Random

import pytest
import trio

from tests.simulation.network import Network, SimulatedStream
from tests.simulation.sockets import Sockets, WiredStream
from tests.simulation.virtual_time import VirtualClock, pass_s

PLACE, CLIENT = 2, "client"
LARGE_BYTES = 3_000_000

Scenario = Callable[[Network, SimulatedStream, socket.socket], Awaitable[None]]


def _run(scenario: Scenario) -> None:
    """Give a scenario a network, a client's stream, and the socket of a broker at its end."""

    async def main() -> None:
        network = Network(Random(1), lambda _: True)
        accepted: list[SimulatedStream] = []
        network.listen(
            PLACE, "process", f"broker-{PLACE}", 9092, accepted.append, sockets.make_stream
        )
        stream = await network.open(CLIENT, f"broker-{PLACE}", 9092, SimulatedStream)
        [wired] = accepted
        assert isinstance(wired, WiredStream)
        wired.brokers_end.setblocking(False)
        with trio.fail_after(60):
            await scenario(network, stream, wired.brokers_end)

    sockets = Sockets()
    try:
        trio.run(main, clock=VirtualClock())
    finally:
        sockets.close()


async def _received(sock: socket.socket) -> bytes:
    await trio.lowlevel.wait_readable(sock)
    return sock.recv(LARGE_BYTES)


def test_nothing_passes_a_cut_until_it_is_healed() -> None:
    """In one direction; the other one works, and what was on its way arrives."""

    async def scenario(network: Network, stream: SimulatedStream, sock: socket.socket) -> None:
        await stream.send_all(b"first")
        assert await _received(sock) == b"first"
        network.cut_one_way(CLIENT, PLACE)
        await stream.send_all(b"second")
        await pass_s(1)
        with pytest.raises(BlockingIOError):
            sock.recv(1)
        sock.send(b"answer")
        assert await stream.receive_some() == b"answer"
        now_s = trio.current_time()
        network.heal()
        assert await _received(sock) == b"second"
        assert trio.current_time() == now_s

    _run(scenario)


def test_no_time_passes_while_a_socket_has_something() -> None:
    """A task that waits for it goes on before another one that waits for a moment."""

    async def scenario(network: Network, stream: SimulatedStream, sock: socket.socket) -> None:
        await stream.send_all(b"request")
        await _received(sock)
        began_s = trio.current_time()
        assert 0 < began_s < 1
        sock.send(b"answer")
        await stream.receive_some()
        assert began_s < trio.current_time() <= began_s + network.delay_s

    _run(scenario)


def test_large_messages_arrive_whole_in_pieces() -> None:
    """In both directions, however much a socket takes at a time."""

    async def scenario(network: Network, stream: SimulatedStream, sock: socket.socket) -> None:
        sent = Random(2).randbytes(LARGE_BYTES)
        await stream.send_all(sent)
        got, pieces = b"", 0
        while len(got) < LARGE_BYTES:
            got, pieces = got + await _received(sock), pieces + 1
        assert (got, pieces > 10) == (sent, True)
        left, back = sent, b""
        while left:
            await trio.lowlevel.wait_writable(sock)
            left = left[sock.send(left) :]
        while len(back) < LARGE_BYTES:
            back += await stream.receive_some(100_000)
        assert back == sent

    _run(scenario)


@pytest.mark.parametrize("how", ["reset", "end_process", "close"])
def test_who_ends_is_noticed(how: str) -> None:
    """By a reset, a death, or a close, and what was sent before a close arrives."""

    async def scenario(network: Network, stream: SimulatedStream, sock: socket.socket) -> None:
        if how == "reset":
            network.reset(CLIENT, PLACE)
        elif how == "end_process":
            network.end_process(CLIENT)
        else:
            sock.send(b"last")
            sock.close()
            assert await stream.receive_some() == b"last"
            assert await stream.receive_some() == b""
            return
        assert await _received(sock) == b""

    _run(scenario)
