"""Closes the files that a forked child of a test inherits from a broker in a thread."""

import os

from kwire.server import Server


def let_go_of(server: Server) -> None:
    """In a forked child: give up listeners, connections and locks of the parent's server.

    Their descriptors stay in use, because objects that own them will close them once more.
    """
    locks = [data.lock_descriptor for data in server.broker.log_manager.data_directories]
    listening = [bound.fileno() for _, bound in server._sockets]
    connected = [connection.fileno() for connection in server.poller.connections]
    nothing = os.open(os.devnull, os.O_RDWR)
    for descriptor in (server._metadata_lock, *locks, *listening, *connected):
        if descriptor >= 0:
            os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)
