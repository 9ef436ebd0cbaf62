"""The audit log's line for a login that succeeded. Its logger is ``kwire.logins``, at INFO.

A client that logs in again on its connection (KIP-368) has a line each time. A login that failed is
told with the end of its connection (``kwire.connection.ends``). Secrets are in neither.

For logs in JSON, a line has the fields ``principal``, ``host``, ``listener`` and ``mechanism``.
"""

import logging
from typing import Protocol

from kwire.security.audit_limits import shown
from kwire.security.principal import Principal

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


def note_login(client: Connected, mechanism: str) -> None:
    """Log that a client has logged in by a SASL mechanism, or by ``CERTIFICATE``."""
    fields = {
        "principal": shown(str(client.principal)),
        "host": client.peer_host,
        "listener": client.listener,
        "mechanism": mechanism,
    }
    log.info(
        "Principal = %s has logged in from host = %s at listener = %s with %s",
        *fields.values(),
        extra={"fields": fields},
    )
