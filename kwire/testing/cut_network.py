"""The connections among the brokers of a test's cluster, which a test can cut.

Rule: a broker that is cut off has no connection to another broker, nor gets one. Its connections
end at once: the others notice it as they would after a while in a network that loses everything.
"""

import socket
from contextlib import suppress
from functools import partial
from weakref import WeakKeyDictionary

import trio

from kwire.client.peer import OpenStream, open_tcp


class CutNetwork:
    """The network of one cluster; ``ports`` says which broker listens where."""

    def __init__(self) -> None:
        self.ports: dict[int, int] = {}
        self.cut_off: set[int] = set()
        self._streams: WeakKeyDictionary[trio.SocketStream, tuple[int, int]] = WeakKeyDictionary()

    def opener(self, node_id: int) -> OpenStream:
        """What a broker opens its connections to others with."""
        return partial(self._open, node_id)

    async def _open(self, node_id: int, host: str, port: int) -> trio.abc.Stream:
        ends = node_id, self.ports.get(port, node_id)
        self._check(ends)
        stream = await open_tcp(host, port)
        assert isinstance(stream, trio.SocketStream)
        try:
            self._check(ends)
        except OSError:
            await trio.aclose_forcefully(stream)
            raise
        self._streams[stream] = ends
        return stream

    def _check(self, ends: tuple[int, int]) -> None:
        if self.cut_off.intersection(ends) and ends[0] != ends[1]:
            raise OSError(f"the network between the brokers {ends[0]} and {ends[1]} is cut")

    def cut(self, node_id: int) -> None:
        """Cut a broker off from the others."""
        self.cut_off.add(node_id)
        for stream, ends in list(self._streams.items()):
            if node_id in ends:
                with suppress(OSError):  # it has ended already
                    stream.socket.shutdown(socket.SHUT_RDWR)

    def heal(self) -> None:
        """Let all brokers reach each other again."""
        self.cut_off.clear()
