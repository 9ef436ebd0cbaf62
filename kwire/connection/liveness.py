"""Whether the client of a connection is still there, while its request waits for its turn.

A client that closes its connection sends the end of its stream. kwire reads nothing from a
connection with a request in hand, so it asks the kernel for the connection's state instead. The
broker's own ``shutdown`` doesn't change that state. Only Linux and TCP connections offer the state;
elsewhere every client counts as still there.
"""

import socket
import sys

_TCP_INFO = socket.TCP_INFO if sys.platform == "linux" else None
_ESTABLISHED = 1


def is_gone(sock: socket.socket) -> bool:
    """Whether the client has closed its end, or the connection has been lost."""
    if sock.fileno() < 0:
        return True
    if _TCP_INFO is None:
        return False
    try:
        state = sock.getsockopt(socket.IPPROTO_TCP, _TCP_INFO, 1)[0]
    except OSError:
        return False
    return state != _ESTABLISHED
