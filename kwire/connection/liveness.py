"""Whether the client of a connection is still there, while its request waits for its turn.

A client that closes its connection sends the end of its stream. Nothing is read from a connection
with a request in hand, so the state that the kernel keeps for the connection is asked instead. The
broker's own ``shutdown`` doesn't change that state. Where the kernel can't be asked (it has to be
Linux and TCP), every client counts as there.
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
