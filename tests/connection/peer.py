"""One end of a pair of sockets, for tests of the poller."""

import socket

import trio


class Peer:
    """One end of a pair of sockets, served by the poller: it notes what it reads."""

    peer_host = "127.0.0.1"
    last_active_s = 0.0
    used_s = 0.0

    def __init__(self, poller, *, pieces=1):
        self.poller = poller
        self.near, self.far = socket.socketpair()
        self.near.setblocking(False)
        self.read = b""
        self.unsent = b""
        self.turns = 0
        self.is_aborted = False
        self.pieces = pieces
        poller.add(self)

    def charge(self, spent_s):
        """Count the time of a turn."""
        self.used_s += spent_s

    def fileno(self):
        """The descriptor that is watched."""
        return self.near.fileno()

    def on_readable(self):
        """Read one byte; ask to be called again until there have been ``pieces``."""
        self.turns += 1
        try:
            self.read += self.near.recv(1)
        except BlockingIOError:
            return
        if self.turns < self.pieces:
            self.poller.serve_again(self)

    def on_writable(self):
        """Send on, and read again when everything is sent."""
        self.turns += 1
        self.unsent = self.unsent[self.near.send(self.unsent) :]
        if not self.unsent:
            self.poller.watch_reading(self)

    def go_on(self):
        """Note that it was woken."""
        self.turns += 1

    def send_gathered(self):
        """Nothing is gathered."""

    def close_nowait(self):
        """Nothing is in hand."""

    def release_memory(self):
        """Nothing is held."""

    def abort_nowait(self):
        """End."""
        self.is_aborted = True
        self.poller.unwatch(self)
        self.near.close()
        self.far.close()
        self.poller.remove(self)


async def until(condition):
    """Let others run until something is so."""
    with trio.fail_after(10):
        while not condition():
            await trio.lowlevel.checkpoint()
