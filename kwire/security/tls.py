"""The TLS of a listener: an ``ssl.SSLContext`` made from Kafka's settings.

Rules:

- Only TLS 1.2 and 1.3 are supported, without renegotiation and without compression.
- The settings name cipher suites as Java does. Python can't enable single suites of TLS 1.3, so a
  list must contain all of them or none.
- A private key that is given in a setting, or in a PKCS12 or JKS file, is never written to a disk.

Source: DefaultSslEngineFactory of Kafka; JSSE's names of cipher suites.
"""

import os
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from kwire.config.listener_settings import ListenerSettings
from kwire.protocol.wire import problem_of_string
from kwire.security.mapping_rules import MappingRules, distinguished_name
from kwire.security.principal import ANONYMOUS, USER, Principal
from kwire.security.sasl import printable
from kwire.security.stores import OWN_KEY, key_and_chain, trusted_certificates, unusable

_CLIENT_AUTH = {
    "none": ssl.CERT_NONE,
    "requested": ssl.CERT_OPTIONAL,
    "required": ssl.CERT_REQUIRED,
}
_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_SUITES_1_3 = {
    "TLS_AES_128_GCM_SHA256",
    "TLS_AES_256_GCM_SHA384",
    "TLS_CHACHA20_POLY1305_SHA256",
}


class NoPrincipal(Exception):
    """A client's certificate gives no user name; the text is the reason, for the log."""


class Tls:
    """The TLS of one listener."""

    def __init__(self, settings: ListenerSettings) -> None:
        self.context = server_context(settings)
        text = settings.text("ssl.principal.mapping.rules")
        try:
            self._rules = MappingRules(text)
        except ValueError as error:
            raise settings.error("ssl.principal.mapping.rules", text, str(error)) from None

    def principal(self, tls: ssl.SSLObject) -> Principal:
        """The principal in a client's certificate; NoPrincipal."""
        try:
            certificate = tls.getpeercert()
        except (ssl.SSLError, UnicodeDecodeError):
            raise NoPrincipal("the name in its certificate isn't text") from None
        if not certificate:
            return ANONYMOUS
        subject: tuple[tuple[tuple[str, str], ...], ...] = certificate["subject"]  # type: ignore[assignment]
        name = distinguished_name(subject)
        user = self._rules.name_of(name)
        if user is None:
            raise NoPrincipal(f"no rule of ssl.principal.mapping.rules matches {name!r}")
        problem = problem_of_string(user)
        if problem is not None:
            raise NoPrincipal(f"the name {printable(user)} {problem}")
        return Principal(USER, user)


def server_context(settings: ListenerSettings) -> ssl.SSLContext:
    """Make the context for a listener; ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    context.options |= ssl.OP_CIPHER_SERVER_PREFERENCE
    context.num_tickets = 1  # one ticket, as Java sends; a second one costs every handshake 40 us
    _choose_versions(context, settings)
    load_key(context, settings)
    context.verify_mode = _CLIENT_AUTH[settings.text("ssl.client.auth")]
    trusted = trusted_certificates(settings)
    if trusted is not None:
        load_trusted(context, settings, trusted)
    elif context.verify_mode is not ssl.CERT_NONE:
        problem = "needs the CA of the clients' certificates: ssl.truststore.location"
        raise settings.error("ssl.client.auth", settings["ssl.client.auth"], problem)
    return context


def client_context(settings: ListenerSettings) -> ssl.SSLContext:
    """Make the context for a client, which is a broker or a kwire command; ConfigError.

    If the settings name no CAs, the client trusts the CAs that this machine trusts.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trusted = trusted_certificates(settings)
    if trusted is None:
        context.load_default_certs()
    else:
        load_trusted(context, settings, trusted)
    context.check_hostname = bool(settings.text("ssl.endpoint.identification.algorithm"))
    _choose_versions(context, settings)
    if any(settings.text(name) for name in OWN_KEY):
        load_key(context, settings)
    return context


def load_key(context: ssl.SSLContext, settings: ListenerSettings) -> None:
    """Load a listener's own private key and certificates into a context; ConfigError."""
    pem, password = key_and_chain(settings)
    try:
        with _in_memory(pem) as name:
            context.load_cert_chain(name, password=lambda: password)
    except (OSError, ValueError) as error:
        problem = f"no private key with its certificates can be read from it ({reason_of(error)})"
        raise unusable(settings, problem) from None


def load_trusted(context: ssl.SSLContext, settings: ListenerSettings, pem: str) -> None:
    """Load the CAs that a listener trusts into a context; ConfigError."""
    try:
        context.load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError) as error:
        location = settings.text("ssl.truststore.location")
        name = "ssl.truststore.location" if location else "ssl.truststore.certificates"
        problem = f"no certificates can be read from it ({reason_of(error)})"
        raise settings.error(name, location or "(hidden)", problem) from None


def reason_of(error: Exception) -> str:
    """The reason of a failed TLS connection, in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return error.verify_message
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.lower().replace("_", " ")
    return str(error)


@contextmanager
def _in_memory(data: bytes) -> Iterator[str]:
    """Make a file in memory, which only this process can open; return its name."""
    fd = os.memfd_create("kwire", os.MFD_CLOEXEC)
    try:
        os.write(fd, data)
        yield f"/proc/self/fd/{fd}"
    finally:
        os.close(fd)


def _choose_versions(context: ssl.SSLContext, settings: ListenerSettings) -> None:
    name = "ssl.enabled.protocols"
    versions = {_VERSIONS[text] for text in settings.strings(name)}
    suites = settings.strings("ssl.cipher.suites")
    newest = set(suites) & _SUITES_1_3
    older = [suite for suite in suites if suite not in _SUITES_1_3]
    if suites and newest and newest != _SUITES_1_3:
        problem = f"Python can't choose among {', '.join(sorted(_SUITES_1_3))}: name all or none"
        raise settings.error("ssl.cipher.suites", ",".join(suites), problem)
    if suites:
        versions -= set() if newest else {ssl.TLSVersion.TLSv1_3}
        versions -= set() if older else {ssl.TLSVersion.TLSv1_2}
    if not versions:
        problem = "no version of TLS is left with these ssl.cipher.suites"
        raise settings.error(name, ",".join(settings.strings(name)), problem)
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if older:
        try:
            context.set_ciphers(":".join(map(openssl_name, older)))
        except ssl.SSLError:
            problem = "OpenSSL knows none of these cipher suites"
            raise settings.error("ssl.cipher.suites", ",".join(older), problem) from None


def openssl_name(suite: str) -> str:
    """OpenSSL's name for a TLS 1.2 cipher suite that is named as Java names it."""
    name = suite.removeprefix("TLS_").replace("_WITH_", "_")
    name = (
        name.replace("AES_128", "AES128").replace("AES_256", "AES256").replace("_CBC_SHA", "_SHA")
    )
    name = name.removeprefix("RSA_").replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    return name.replace("_", "-")
