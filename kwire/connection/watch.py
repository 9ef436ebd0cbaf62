"""What the poller watches one connection's socket for: reading, writing, or nothing."""

from kwire.connection.poller import Pollable, Poller


class Watch:
    """The poller's watch of one socket, which begins with reading."""

    __slots__ = ("_connection", "_poller", "is_on", "is_sending")

    def __init__(self, poller: Poller, connection: Pollable) -> None:
        self._poller = poller
        self._connection = connection
        self.is_on = True
        self.is_sending = False

    def begin(self, *, sending: bool) -> None:
        """Watch the socket for reading, or for writing if ``sending``."""
        if not self.is_on:
            self._poller.watch(self._connection)
            self.is_on = True
        if sending and not self.is_sending:
            self._poller.watch_writing(self._connection)
        elif self.is_sending and not sending:
            self._poller.watch_reading(self._connection)
        self.is_sending = sending

    def end(self) -> None:
        """Stop the watch; harmless when the socket is not watched."""
        if self.is_on:
            self._poller.unwatch(self._connection)
            self.is_on = self.is_sending = False
