"""``kwire secure renew``: new certificates from the same CA, before the old ones expire.

Rules:

- The command renews each file that has a private key and a certificate signed by the CA. The new
  certificate has a new key and the names of the old certificate.
- A file is replaced as a whole and keeps its mode and owner. Brokers that use the file load it
  within seconds, without a restart.
- No file is replaced unless all new files can be made.
"""

import os
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from secrets import token_urlsafe
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from kwire.config.secret_files import UnsafeFile, read_public, read_secret
from kwire.security.authority import Authority

_KEY = b"PRIVATE KEY-----"


class CannotRenew(ValueError):
    """The certificates can't be renewed. The text is the reason, in one line."""


class Renewed(NamedTuple):
    """A renewed file, and the time when its certificate expires."""

    path: Path
    ends: datetime


def renew(directory: Path, ca_key: Path, days: int) -> list[Renewed]:
    """Renew the certificates in the ``.pem`` files of a directory; CannotRenew, OSError.

    ``ca.pem`` is the CA's certificate. The new certificates expire after ``days`` days, or with the
    CA's.
    """
    authority = read_authority(directory / "ca.pem", ca_key)
    made = [(path, _renewed(path, authority, days)) for path in sorted(directory.glob("*.pem"))]
    new = [(path, text) for path, text in made if text]
    if not new:
        raise CannotRenew(f"{directory} has no certificate with its key that this CA has signed")
    for path, text in new:
        _replace(path, text)
    return [Renewed(path, end_of(path)) for path, _ in new]


def end_of(path: Path) -> datetime:
    """The time when the first certificate of a PEM file expires; ValueError, UnsafeFile."""
    found = x509.load_pem_x509_certificates(read_public(str(path)))
    return found[0].not_valid_after_utc


def read_authority(certificate: Path, ca_key: Path) -> Authority:
    """The CA from its two files; CannotRenew if it can't sign."""
    try:
        key = serialization.load_pem_private_key(read_secret(str(ca_key)), None)
        found = x509.load_pem_x509_certificate(read_public(str(certificate)))
    except UnsafeFile as error:
        raise CannotRenew(str(error)) from None
    except (ValueError, TypeError):
        raise CannotRenew(f"{ca_key} and {certificate} are no CA's key and certificate") from None
    if not isinstance(key, ec.EllipticCurvePrivateKey) or found.public_key() != key.public_key():
        raise CannotRenew(f"{ca_key} is not the key of the CA in {certificate}")
    if found.not_valid_after_utc <= datetime.now(UTC):
        problem = f"the CA in {certificate} has ended itself"
        raise CannotRenew(f"{problem}: make another one, with kwire secure init")
    return Authority(key, found)


def _renewed(path: Path, authority: Authority, days: int) -> str:
    """The new content of a file; empty for a file that isn't renewed."""
    try:
        content = read_public(str(path))
        if _KEY not in content:
            return ""
        old = x509.load_pem_x509_certificate(content)
        old.verify_directly_issued_by(authority.certificate)
        names = old.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except UnsafeFile as error:
        raise CannotRenew(str(error)) from None
    except Exception:  # signed by another CA, or not readable: cryptography has many errors
        return ""
    pair = authority.sign_again(old.subject, names, days)
    return pair.key_pem + pair.certificate_pem


def _replace(path: Path, text: str) -> None:
    before = path.stat()
    draft = path.with_name(f".{path.name}.{token_urlsafe(6)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    try:
        with open(os.open(draft, flags, 0o600), "w", encoding="ascii") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        if (before.st_uid, before.st_gid) != (os.geteuid(), os.getegid()):
            os.chown(draft, before.st_uid, before.st_gid)
        draft.chmod(before.st_mode & 0o660)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def soon_over(paths: Iterable[Path], within_days: int) -> list[Renewed]:
    """The PEM files whose certificate expires within so many days, or has expired."""
    found = []
    for path in paths:
        try:
            ends = end_of(path)
        except (ValueError, IndexError):  # includes UnsafeFile; another check reports these
            continue
        if (ends - datetime.now(UTC)).days < within_days:
            found.append(Renewed(path, ends))
    return found
