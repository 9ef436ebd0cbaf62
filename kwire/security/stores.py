"""Loads the keys and certificates of a listener: PEM in files or settings, PKCS12 and JKS files.

Rules:

- A file that holds a private key and that every user of the machine may read is refused.
- PKCS12 needs the package cryptography (``kwire[security]``).
- The content of the file decides between PKCS12 and JKS, whichever of the two the setting names.
  Java does the same.
- The event loop waits while the keys of a PKCS12 file are derived from its password. So a file that
  takes too long is refused (``pkcs12_rounds``).

Source: DefaultSslEngineFactory of Kafka.
"""

from functools import lru_cache
from typing import NamedTuple

from kwire.config.extras import needs
from kwire.config.listener_settings import ListenerSettings
from kwire.config.secret_files import UnsafeFile, read_public, read_secret
from kwire.config.settings import ConfigError
from kwire.security.jks import MAGIC, JksError, read_jks
from kwire.security.pkcs12_rounds import MOST_ROUNDS, rounds_of

_MOST_KEPT, _MOST_KEPT_BYTES = 8, 64 * 1024
"""How many PKCS12 files are kept open, and how large they are at most."""


class _Store(NamedTuple):
    """The names of the settings that describe a file with keys or certificates."""

    type: str
    location: str
    password: str


_KEYS = _Store("ssl.keystore.type", "ssl.keystore.location", "ssl.keystore.password")
_TRUST = _Store("ssl.truststore.type", "ssl.truststore.location", "ssl.truststore.password")
_OWN_CHAIN, _OWN_KEY = "ssl.keystore.certificate.chain", "ssl.keystore.key"
OWN_KEY = (_KEYS.location, _OWN_CHAIN, _OWN_KEY)
"""A listener has a private key if at least one of these settings is given."""


class KeyAndChain(NamedTuple):
    """A private key and its certificates as PEM, from the owner's certificate to the CA's."""

    pem: bytes
    password: str


def key_and_chain(settings: ListenerSettings) -> KeyAndChain:
    """The private key of a listener and its certificates; ConfigError."""
    password = settings.text("ssl.key.password")
    location = settings.text(_KEYS.location)
    if not location:
        chain = settings.text(_OWN_CHAIN)
        return KeyAndChain(f"{settings.text(_OWN_KEY)}\n{chain}\n".encode(), password)
    data = _read(settings, _KEYS.location, is_secret=True)
    if settings.text(_KEYS.type).upper() == "PEM":
        return KeyAndChain(data, password)
    pem, _ = _java_store(settings, _KEYS, data, password)
    if not pem:
        raise settings.error(_KEYS.location, location, "the file has no private key")
    return KeyAndChain(pem, "")


def trusted_certificates(settings: ListenerSettings) -> str | None:
    """The certificates of the CAs that the listener trusts, as PEM; None if the settings name
    none.
    """
    inline = settings.text("ssl.truststore.certificates")
    if inline:
        return inline
    if not settings.text(_TRUST.location):
        return None
    data = _read(settings, _TRUST.location, is_secret=False)
    if settings.text(_TRUST.type).upper() != "PEM":
        _, data = _java_store(settings, _TRUST, data, "")
    return data.decode("ascii", "replace")


def files_of(settings: ListenerSettings) -> list[str]:
    """The files from which a listener's keys and certificates are loaded."""
    names = (settings.text(store.location) for store in (_KEYS, _TRUST))
    return [name for name in names if name]


def _read(settings: ListenerSettings, setting: str, *, is_secret: bool) -> bytes:
    name = settings.text(setting)
    try:
        return read_secret(name) if is_secret else read_public(name)
    except UnsafeFile as error:
        raise settings.error(setting, name, str(error)) from None


def _java_store(
    settings: ListenerSettings, store: _Store, data: bytes, key_password: str
) -> tuple[bytes, bytes]:
    """Load a PKCS12 or JKS file: the private key with its chain, and all other certificates, as
    PEM.

    Raises ConfigError.
    """
    if not data.startswith(MAGIC):
        return _pkcs12(settings, store, data)
    try:
        found = read_jks(data, settings.text(store.password), key_password)
    except JksError as error:
        name = settings.text(store.location)
        problem = f"no keys or certificates can be read from it ({error})"
        raise settings.error(store.location, name, problem) from None
    return found.key + found.chain if found.key else b"", found.trusted


def _pkcs12(settings: ListenerSettings, store: _Store, data: bytes) -> tuple[bytes, bytes]:
    """Load a PKCS12 file; returns and raises the same as ``_java_store``."""
    setting, name = store.location, settings.text(store.location)
    try:
        import cryptography  # noqa: F401
    except ImportError:
        problem = needs("security", "cryptography")
        raise settings.error(store.type, "PKCS12", problem) from None
    _check_rounds(settings, setting, data)
    open_store = _opened if len(data) <= _MOST_KEPT_BYTES else _opened.__wrapped__
    try:
        return open_store(data, settings.text(store.password))
    except ValueError:
        raise settings.error(
            setting, name, f"it is no PKCS12 file, or {store.password} is wrong"
        ) from None


@lru_cache(maxsize=_MOST_KEPT)
def _opened(data: bytes, password: str) -> tuple[bytes, bytes]:
    """The private key of a PKCS12 file with its chain, and its certificates, as PEM; ValueError.

    The library checks the key, a quarter of a second for RSA with 4096 bits. One change of a
    listener's keys asks for the old and the new ones ten times.
    """
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.serialization import pkcs12

    found = pkcs12.load_pkcs12(data, password.encode() or None)
    pem = serialization.Encoding.PEM
    own = b"" if found.cert is None else found.cert.certificate.public_bytes(pem)
    others = b"".join(c.certificate.public_bytes(pem) for c in found.additional_certs)
    if found.key is None:
        return b"", own + others
    key = found.key.private_bytes(
        pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return key + own + others, own + others


def _check_rounds(settings: ListenerSettings, setting: str, data: bytes) -> None:
    """Raise ConfigError for a PKCS12 file whose keys take too long to derive."""
    name = settings.text(setting)
    try:
        rounds = rounds_of(data)
    except ValueError as error:
        problem = f"it is no PKCS12 file in DER ({error}); openssl pkcs12 writes one"
        raise settings.error(setting, name, problem) from None
    if rounds > MOST_ROUNDS:
        problem = f"its keys take {rounds} rounds to derive, and {MOST_ROUNDS} is the most"
        raise settings.error(setting, name, problem)


def unusable(settings: ListenerSettings, problem: str) -> ConfigError:
    """The error for keys or certificates that OpenSSL refuses."""
    for name in (_KEYS.location, _OWN_CHAIN):
        if settings.text(name):
            shown = settings.text(name) if name.endswith("location") else "(hidden)"
            return settings.error(name, shown, problem)
    return settings.error(_KEYS.location, None, problem)
