"""The limits and times of a client, with defaults for people at a terminal."""

from collections.abc import Callable
from typing import NamedTuple


def tell_nobody(text: str) -> None:
    """Drop what an operation waits for: the default of ``ClientSettings.tell``."""


class ClientSettings(NamedTuple):
    """Times are in seconds, sizes in bytes."""

    client_id: str = "kwire"
    connect_timeout_s: float = 5.0
    request_timeout_s: float = 30.0
    """How long an answer may take, on top of the time that the request itself asks for."""
    give_up_s: float = 30.0
    """How long retriable errors are answered by trying again."""
    backoff_s: float = 0.05
    """The first pause before trying again; each pause is up to twice as long as the one before."""
    max_backoff_s: float = 1.0
    max_in_flight: int = 100
    """Requests of one connection that may wait for their answers."""
    max_response_bytes: int = 256 * 1024 * 1024
    tell: Callable[[str], object] = tell_nobody
    """Takes one line about what an operation waits for, once it has waited for a second."""
