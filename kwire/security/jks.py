"""Reads JKS files, Java's old format for key stores, and returns their keys and certificates as
PEM.

Format (all numbers big-endian): magic FEEDFEED, version 1 or 2, number of entries, the entries, and
a SHA-1 over the password and everything before. An entry begins with its kind (1: private key with
its certificate chain, 2: trusted certificate), an alias and a time. A private key is encrypted: it
is XORed with a stream of SHA-1 values, which are made from the password and a salt.

Rules:

- With a password, the SHA-1 at the end is checked, which shows whether the file was changed.
  Without a password, it is not checked, as in Java.
- Only the files of ``keytool -storetype JKS`` are supported, not JCEKS, BKS and others.
- This is our own code because the Python libraries for JKS have had no release since 2020, and need
  five further packages.

Source: sun.security.provider.JavaKeyStore, KeyProtector of OpenJDK.
"""

import hmac
from base64 import b64encode
from hashlib import sha1
from itertools import islice
from typing import NamedTuple

MAGIC = b"\xfe\xed\xfe\xed"
_PHRASE = b"Mighty Aphrodite"
_PROTECTED = bytes.fromhex("060a2b060104012a02110101")
"""The identifier of JKS's encryption of private keys in DER: 1.3.6.1.4.1.42.2.17.1.1."""

MOST_KEY_BYTES = 64 * 1024
"""The largest private key: an RSA key of 16,384 bits has 10 KB. Python decrypts it byte for byte,
and the event loop waits."""

_DIGEST_BYTES = 20
_KEY, _TRUSTED = 1, 2
_SEQUENCE, _OCTETS = 0x30, 0x04
_LINE = 64


class JksError(ValueError):
    """A JKS file can't be read. The text gives the reason and quotes nothing from the file."""


class Jks(NamedTuple):
    """The content of a JKS file as PEM texts.

    - ``key``: the first private key; empty if there is none.
    - ``chain``: the certificates of that key, its own one first and its CA's last.
    - ``trusted``: the trusted certificates, and the first certificate of each private key.
    """

    key: bytes
    chain: bytes
    trusted: bytes


def read_jks(data: bytes, password: str, key_password: str = "") -> Jks:
    """Read a JKS file; JksError.

    If ``key_password`` is empty, the private keys are decrypted with the password of the file.
    """
    secret = password.encode("utf-16-be")
    if secret:
        digest = sha1(secret + _PHRASE + data[:-_DIGEST_BYTES], usedforsecurity=False).digest()
        if not hmac.compare_digest(digest, data[-_DIGEST_BYTES:]):
            raise JksError("its password is wrong, or the file has been changed")
    reader = _Reader(data[:-_DIGEST_BYTES])
    if reader.take(4) != MAGIC or (version := reader.number(4)) not in (1, 2):
        raise JksError("it is no JKS file")
    key = b""
    chain: list[bytes] = []
    trusted: list[bytes] = []
    for _ in range(reader.number(4)):
        kind = reader.number(4)
        reader.take(reader.number(2))  # the alias
        reader.take(8)  # the time
        if kind == _KEY:
            protected = reader.take(reader.number(4))
            if len(protected) > MOST_KEY_BYTES:
                raise JksError(f"a private key in it has more than {MOST_KEY_BYTES} bytes")
            found = [_certificate(reader, version) for _ in range(reader.number(4))]
            trusted += found[:1]
            if not key:
                own = key_password.encode("utf-16-be") or secret
                key, chain = _pem("PRIVATE KEY", _unlocked(protected, own)), found
        elif kind == _TRUSTED:
            trusted.append(_certificate(reader, version))
        else:
            raise JksError(f"it has an entry of kind {kind}, which JKS doesn't know")
    return Jks(key, b"".join(chain), b"".join(trusted))


class _Reader:
    """Reads bytes and numbers one after the other; JksError at an unexpected end."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def take(self, size: int) -> bytes:
        taken = self._data[self._position : self._position + size]
        if len(taken) != size:
            raise JksError("it ends early")
        self._position += size
        return taken

    def number(self, size: int) -> int:
        return int.from_bytes(self.take(size))

    def der(self, tag: int) -> bytes:
        """The content of the next DER value, which must have this tag."""
        found, size = self.number(1), self.number(1)
        if size & 0x80:
            size = self.number(size & 0x7F)
        if found != tag:
            raise JksError("a private key in it is malformed")
        return self.take(size)


def _certificate(reader: _Reader, version: int) -> bytes:
    if version == 2:
        reader.take(reader.number(2))  # X.509
    return _pem("CERTIFICATE", reader.take(reader.number(4)))


def _unlocked(protected: bytes, secret: bytes) -> bytes:
    """Decrypt a private key of the file; returns PKCS8 bytes; JksError."""
    parts = _Reader(_Reader(protected).der(_SEQUENCE))
    if not parts.der(_SEQUENCE).startswith(_PROTECTED):
        raise JksError("a private key in it is protected in a way that JKS doesn't know")
    octets = parts.der(_OCTETS)
    salt, hidden = octets[:_DIGEST_BYTES], octets[_DIGEST_BYTES:-_DIGEST_BYTES]
    key = bytes(a ^ b for a, b in zip(hidden, _stream(secret, salt, len(hidden)), strict=True))
    digest = sha1(secret + key, usedforsecurity=False).digest()
    if not hmac.compare_digest(digest, octets[-_DIGEST_BYTES:]):
        raise JksError("the password of its private key is wrong")
    return key


def _stream(secret: bytes, salt: bytes, size: int) -> bytes:
    made = bytearray()
    block = salt
    while len(made) < size:
        block = sha1(secret + block, usedforsecurity=False).digest()
        made += block
    return bytes(islice(made, size))


def _pem(what: str, der: bytes) -> bytes:
    text = b64encode(der).decode()
    lines = [text[at : at + _LINE] for at in range(0, len(text), _LINE)]
    return "\n".join([f"-----BEGIN {what}-----", *lines, f"-----END {what}-----", ""]).encode()
