"""Checks whether a listener may change to the keys that a dynamic config names.

Rules:

- The new private key with its certificates has to be usable. The same holds for all other settings
  of the listener's TLS.
- A new certificate must not have expired. Kafka checks that only on the inter-broker listener.
- On the inter-broker listener, the new keys and the old ones have to trust each other in both
  directions, because brokers don't change at the same moment. This isn't checked if the old keys
  don't trust themselves.
- The certificate keeps its distinguished name, unless ``ssl.allow.dn.changes`` is set, and all of
  its alternative names, unless ``ssl.allow.san.changes`` is set. If the certificate in force has
  expired, or can't be read, there is nothing to compare.
- Names are taken from a handshake in memory, because Python itself can't read certificates.

Source: SslFactory.validateReconfiguration, CertificateEntries (KIP-978) and SslEngineValidator of
Kafka.
"""

import ssl
from contextlib import suppress
from typing import Any, NamedTuple

from kwire.config.listener_settings import ListenerSettings, check_tls_values
from kwire.config.settings import ConfigError
from kwire.security.tls import Tls, client_context, reason_of, server_context

ALLOW_DN, ALLOW_SAN = "ssl.allow.dn.changes", "ssl.allow.san.changes"


_MOST_TURNS = 4
"""The most turns of a handshake: TLS 1.2 needs three, TLS 1.3 two."""


class _Names(NamedTuple):
    """The names in a certificate, as ``ssl`` gives them."""

    subject: Any
    alternatives: frozenset[tuple[str, str]]


def check_change(
    before: ListenerSettings, after: ListenerSettings, *, is_among_brokers: bool = False
) -> None:
    """Raise ConfigError if a listener can't change its settings from ``before`` to ``after``."""
    check_tls_values(after)
    context = Tls(after).context
    try:
        old = _names(server_context(before))
    except (ConfigError, ssl.SSLError):
        old = None
    try:
        new = _names(context)
    except ssl.SSLError as refused:
        if old is None:
            return
        raise _error(after, f"the certificate can't be used: {reason_of(refused)}") from None
    if old is None:
        return
    if old.subject != new.subject and not before[ALLOW_DN]:
        problem = f"the certificate has another distinguished name; {ALLOW_DN} would allow it"
        raise _error(after, problem)
    lost = sorted(text for _, text in old.alternatives - new.alternatives)
    if lost and not before[ALLOW_SAN]:
        problem = f"the certificate lacks the names {', '.join(lost)}; {ALLOW_SAN} would allow it"
        raise _error(after, problem)
    if is_among_brokers:
        _check_trust(before, after)


def _check_trust(before: ListenerSettings, after: ListenerSettings) -> None:
    """Raise ConfigError if brokers with the new and the old keys can't connect to each other."""
    if _distrust(before, before) is not None:
        return
    for server, client in ((before, after), (after, before)):
        refused = _distrust(server, client)
        if refused is not None:
            problem = f"brokers with the old keys and with the new ones don't connect: {refused}"
            raise _error(after, problem)


def _distrust(server: ListenerSettings, client: ListenerSettings) -> str | None:
    """Why brokers with the keys of ``client`` can't connect to one with those of ``server``."""
    context = client_context(client)
    context.check_hostname = False  # the name is the advertised one, which isn't known here
    try:
        side = _handshake(server_context(server), context)
        return None if side.version() else "no handshake"
    except ssl.SSLError as refused:
        return reason_of(refused)


def _error(settings: ListenerSettings, problem: str) -> ConfigError:
    location = settings["ssl.keystore.location"]
    name = "ssl.keystore.location" if location else "ssl.keystore.certificate.chain"
    return settings.error(name, location or "(hidden)", problem)


def _names(server: ssl.SSLContext) -> _Names:
    """The names in a listener's certificate; ssl.SSLError if no client would accept it."""
    server.verify_mode = ssl.CERT_NONE
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    shown = _handshake(server, client).getpeercert(binary_form=True)
    assert shown is not None
    client.verify_mode = ssl.CERT_REQUIRED
    client.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    client.load_verify_locations(cadata=shown)
    read: dict[str, Any] = _handshake(server, client).getpeercert() or {}
    return _Names(read.get("subject"), frozenset(read.get("subjectAltName", ())))


def _handshake(server: ssl.SSLContext, client: ssl.SSLContext) -> ssl.SSLObject:
    """The client's side of a connection between two contexts."""
    up, down = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(down, up),
        server.wrap_bio(up, down, server_side=True),
    ]
    for _ in range(_MOST_TURNS):
        for side in sides:
            with suppress(ssl.SSLWantReadError):
                side.do_handshake()
    return sides[0]
