"""The state of the poller's watch of one socket: for reading, for writing, or none."""

from kwire.connection.poller import Pollable, Poller


class Watch:
    """The poller's watch of one connection's socket, which begins with reading.

    The methods get the connection as an argument. If the watch and the connection held each other,
    only the garbage collector would free them.
    """

    __slots__ = ("_poller", "is_on", "is_sending")

    def __init__(self, poller: Poller) -> None:
        self._poller = poller
        self.is_on = True
        self.is_sending = False

    def start_watching(self, connection: Pollable, *, sending: bool) -> None:
        """Watch the socket for reading, or for writing if ``sending``."""
        if not self.is_on:
            self._poller.watch(connection)
            self.is_on = True
        if sending and not self.is_sending:
            self._poller.watch_writing(connection)
        elif self.is_sending and not sending:
            self._poller.watch_reading(connection)
        self.is_sending = sending

    def end(self, connection: Pollable) -> None:
        """Stop the watch; harmless when the socket is not watched."""
        if self.is_on:
            self._poller.unwatch(connection)
            self.is_on = self.is_sending = False
