"""The lines of the audit log for logins and failed logins, at level INFO of ``kwire.logins``.

Rules:

- A client that authenticates again on its connection (KIP-368) has one line for each login.
- A failed login is a refused TLS handshake, a refused SASL login, or a certificate without a user
  name. The line has the reason, and no secret.
- Any client can cause failures without end. So ``audit_limits`` limits the lines of each address,
  and nobody can hide lines about others in a flood of failures.
- In JSON logs, the line of a login has the fields ``principal``, ``host``, ``listener`` and
  ``mechanism``. The line of a failed login has ``host`` and ``reason``.
"""

import logging
from collections.abc import Callable
from typing import Protocol

from kwire.clock import steady_clock_ms
from kwire.security.audit_limits import AuditLimits, shown
from kwire.security.principal import ANONYMOUS, Principal

log = logging.getLogger("kwire.logins")

CERTIFICATE = "a certificate"
"""The mechanism in the line if only a TLS certificate says who the client is."""


class Connected(Protocol):
    """A client that has logged in."""

    @property
    def principal(self) -> Principal:
        """The user of the client since its last login."""

    @property
    def peer_host(self) -> str:
        """The IP address of the client."""

    @property
    def listener(self) -> str:
        """The name of the listener to which the client is connected."""


class LoginLines:
    """The lines about the logins at one broker."""

    def __init__(self, steady_ms: Callable[[], int] = steady_clock_ms) -> None:
        self.logins = AuditLimits("logins", steady_ms=steady_ms, told_by=log)
        self.failures = AuditLimits("failed logins", steady_ms=steady_ms, told_by=log)

    def log_login(self, client: Connected, mechanism: str) -> None:
        """Log that a client has logged in by a SASL mechanism, or by ``CERTIFICATE``."""
        fields = {
            "principal": shown(str(client.principal)),
            "host": client.peer_host,
            "listener": client.listener,
            "mechanism": mechanism,
        }
        if self.logins.has_line(fields["principal"], client.peer_host):
            log.info(
                "Principal = %s has logged in from host = %s at listener = %s with %s",
                *fields.values(),
                extra={"fields": fields},
            )

    def note_failure(self, peer: str, reason: str) -> None:
        """Log a failed login. ``peer`` is the address and port of the client, as ADDRESS:PORT."""
        host = peer.rpartition(":")[0]
        if self.failures.has_line(str(ANONYMOUS), host):
            fields = {"host": host, "reason": reason}
            log.info("closing the connection from %s: %s", peer, reason, extra={"fields": fields})

    def log_left_out(self) -> None:
        """Log how many lines the limits have left out. This is called every second."""
        self.logins.log_left_out()
        self.failures.log_left_out()
