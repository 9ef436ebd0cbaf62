"""The log line for the end of a connection.

An end that the client caused is an info or debug line. An unexpected exception is a bug. A login
that failed is a line of the audit log (``kwire.security.login_lines``).
"""

import logging

from kwire.broker.broker import Broker
from kwire.connection.inbox import BadFrameSize
from kwire.connection.outbox import SliceEnded
from kwire.dispatch.failures import ConnectionClosed, LoginFailed

log = logging.getLogger(__name__)

_OTHER_PROTOCOLS = {
    b"GET ": "an HTTP request",
    b"POST": "an HTTP request",
    b"HEAD": "an HTTP request",
    b"PUT ": "an HTTP request",
    b"OPTI": "an HTTP request",
    b"\x16\x03\x00": "a TLS handshake",
    b"\x16\x03\x01": "a TLS handshake",
    b"\x16\x03\x03": "a TLS handshake",
}


def bad_frame_size(error: BadFrameSize, most_bytes: int, setting: str) -> ConnectionClosed:
    """The error for a frame that is too small, or larger than ``setting`` allows."""
    for prefix, what in _OTHER_PROTOCOLS.items():
        if error.start.startswith(prefix):
            return ConnectionClosed(f"this looks like {what}; this listener doesn't")
    return ConnectionClosed(f"a request of {error.size_bytes} bytes; {setting} allows {most_bytes}")


def log_disconnect(error: Exception, broker: Broker, peer: str) -> None:
    """Log why a connection ends."""
    if isinstance(error, ConnectionClosed):
        if error.args:
            broker.counters.malformed += 1
            if isinstance(error, LoginFailed) and broker.login_lines is not None:
                broker.login_lines.note_failure(peer, str(error))
            else:
                log.info("closing the connection from %s: %s", peer, error)
    elif isinstance(error, OSError):
        log.debug("connection from %s ended: %s", peer, error)
    elif isinstance(error, SliceEnded):
        log.warning("closing the connection from %s: %s", peer, error)
    else:
        log.error("bug in serving %s", peer, exc_info=error)
        broker.bugs.append(error)
