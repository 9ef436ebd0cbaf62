"""The audit log's lines for logins, and for those that failed. The logger is ``kwire.logins``, at
INFO.

Rules:

- A client that logs in again on its connection (KIP-368) has a line each time.
- A failure is a TLS handshake or a login that was refused, or a certificate without a user name.
  The line has the reason, and no secret. Anybody can make failures without an end, so the limits of
  ``audit_limits`` count for each address: nobody hides them, or the logins of others, in a flood.
- For logs in JSON, a login has the fields ``principal``, ``host``, ``listener`` and ``mechanism``,
  a failure ``host`` and ``reason``.
"""

import logging
from typing import Protocol

from kwire.security.audit_limits import AuditLimits, shown
from kwire.security.principal import ANONYMOUS, Principal

log = logging.getLogger("kwire.logins")

CERTIFICATE = "a certificate"
"""What stands for a mechanism if TLS alone says who the client is."""


class Connected(Protocol):
    """A client that has logged in."""

    @property
    def principal(self) -> Principal:
        """Who it is now."""

    @property
    def peer_host(self) -> str:
        """Its IP address."""

    @property
    def listener(self) -> str:
        """The name of the listener that it has come to."""


class LoginLines:
    """The lines about the logins at one broker."""

    def __init__(self) -> None:
        self._logins = AuditLimits("logins", told_by=log)
        self._failures = AuditLimits("failed logins", told_by=log)

    def note(self, client: Connected, mechanism: str) -> None:
        """Log that a client has logged in by a SASL mechanism, or by ``CERTIFICATE``."""
        fields = {
            "principal": shown(str(client.principal)),
            "host": client.peer_host,
            "listener": client.listener,
            "mechanism": mechanism,
        }
        if self._logins.has_line(fields["principal"], client.peer_host):
            log.info(
                "Principal = %s has logged in from host = %s at listener = %s with %s",
                *fields.values(),
                extra={"fields": fields},
            )

    def note_failure(self, peer: str, reason: str) -> None:
        """Log that a client hasn't shown who it is. ``peer`` is its IP address, ``:``, its port."""
        host = peer.rpartition(":")[0]
        if self._failures.has_line(str(ANONYMOUS), host):
            fields = {"host": host, "reason": reason}
            log.info("closing the connection from %s: %s", peer, reason, extra={"fields": fields})

    def tell(self) -> None:
        """Tell what was left out. This is called every second."""
        self._logins.tell()
        self._failures.tell()
