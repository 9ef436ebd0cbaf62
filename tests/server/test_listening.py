"""The sockets that listen have the queue and the buffers of the settings."""

import socket
import struct
import sys

import pytest

from kwire.config import BrokerConfig
from kwire.server import bind

SACKED = 28
"""Where Linux has the length of a listening socket's queue in its struct tcp_info."""


def _bound(**given):
    config = BrokerConfig.load({"listeners": "PLAINTEXT://127.0.0.1:0", **given})
    return bind(config.listeners()[0], config)


def _receive_buffer_bytes(bound):
    return bound.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF)


@pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's struct tcp_info")
def test_the_queue_of_new_connections_has_its_length():
    """Each length is below that which Linux allows at most."""
    for length in ("7", "20"):
        with _bound(**{"socket.listen.backlog.size": length}) as bound:
            told = bound.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
            assert struct.unpack_from("I", told, SACKED) == (int(length),)


def test_connections_have_the_receive_buffer_of_the_setting():
    """An accepted connection has that of the socket that listens; the default is the system's."""
    with socket.socket() as usual, _bound() as bound:
        assert _receive_buffer_bytes(bound) == _receive_buffer_bytes(usual)
    sizes = []
    for size in ("20000", "40000"):
        bound = _bound(**{"socket.receive.buffer.bytes": size})
        with bound, socket.create_connection(bound.getsockname()):
            bound.setblocking(True)
            accepted, _ = bound.accept()
            with accepted:
                sizes.append(_receive_buffer_bytes(accepted))
    assert sizes[0] >= 20000
    assert sizes[1] == 2 * sizes[0]
