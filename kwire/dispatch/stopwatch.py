"""The times and the errors of a connection's requests, except single ones of Produce.

A connection has one request in hand at a time. One that is begun behind it has its own.
"""

from time import perf_counter
from typing import Any

from kwire.broker.metrics_counters import MetricsCounters
from kwire.dispatch.pending_request import COME_LATER
from kwire.protocol.error_codes import error_codes
from kwire.protocol.types import Message


class Stopwatch:
    """Times one request after the other."""

    __slots__ = ("_api_key", "_began_s", "_codes", "_counters", "_local_s", "_queue_s")

    def __init__(self, counters: MetricsCounters) -> None:
        self._counters = counters
        self._api_key = 0
        self._began_s = self._queue_s = 0.0
        self._local_s = -1.0
        self._codes: list[int] = []

    def start_request(self, api_key: int, ready_s: float) -> None:
        """Begin with a request, whose connection was found ready at ``ready_s``."""
        self._api_key = api_key
        self._local_s = -1.0
        self._began_s = now_s = perf_counter()
        self._queue_s = max(now_s - ready_s, 0.0)

    def note_errors(self, response: Message) -> None:
        """Note the error codes of a response; a thread may call this."""
        self._codes = error_codes(response)

    def record_response(self, response: Any, is_large: bool) -> None:
        """Note a response, or the object that gives the response later.

        A large response comes twice: first as it is, and then as bytes, from the thread that
        encodes it and notes its errors.
        """
        if is_large and isinstance(response, Message):
            return
        if type(response) in COME_LATER:
            if self._local_s < 0:
                self._local_s = perf_counter() - self._began_s
            return
        served_s = perf_counter() - self._began_s
        local_s = served_s if self._local_s < 0 else self._local_s
        self._counters.times_of(self._api_key).add(self._queue_s, local_s, served_s - local_s)
        if isinstance(response, Message):
            self.note_errors(response)
        if self._codes:
            for code in self._codes:
                self._counters.errors[self._api_key, code] += 1
            self._codes = []
