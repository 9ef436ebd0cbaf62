"""Reads the files that settings name. Files with secrets must be unreadable for other users.

Rule: an administrator who may change a broker's configs could name any file of the broker's
machine, and the event loop reads it. So only regular files of at most ``MOST_BYTES`` are read:
reading a pipe or a device might never end. A command may read a pipe: ``--command-config <(…)``.

Source: none in Kafka, which reads any file.
"""

import os
import re
import stat
from collections.abc import Mapping

from kwire.config.settings import BROKER, Setting, settings

MOST_BYTES = 16 << 20

REFERENCE = re.compile(r"\$\{([^}:]*):(?:([^}]*?):)?([^}]*?)\}")
"""A reference of ``config.providers``: the provider, a path, a key (ConfigTransformer of Kafka)."""

_WITH_OPTIONS = ("sasl.jaas.config", "kwire.scram.first.users")
_OWN_PASSWORD = re.compile(
    r"\b(?:password|saltedpassword|user_[^\s=]+)\s*=\s*"
    r"(?:\"\0*[^\"\0]|'\0*[^'\0]|\0*[^\s;,\]\"'\0])"
)
"""An option whose password isn't only references. References are written as zeros."""


class UnsafeFile(ValueError):
    """A file can't be read, or every user of the machine may read it. The text is one line."""


def read_secret(name: str, *, may_be_pipe: bool = False) -> bytes:
    """The content of a file with a secret; UnsafeFile."""
    return _read(name, is_secret=True, may_be_pipe=may_be_pipe)


def read_public(name: str, *, may_be_pipe: bool = False) -> bytes:
    """The content of a file without secrets; UnsafeFile if it can't be read."""
    return _read(name, is_secret=False, may_be_pipe=may_be_pipe)


def holds_secret(given: Mapping[str, str]) -> bool:
    """Whether settings hold a secret, and not only references of ``config.providers``."""
    known = settings(BROKER)
    for name, text in given.items():
        parts = name.split(".") if name.startswith("listener.name.") else []
        bases = (name, ".".join(parts[3:]), ".".join(parts[4:]))
        if any(_is_secret(known.get(base)) for base in bases) and _has_own(name, text):
            return True
    return False


def _has_own(name: str, text: str) -> bool:
    """Whether a text itself contains a secret, and not only its references do."""
    cut, references = REFERENCE.subn("\0", text)
    if references and name.endswith(_WITH_OPTIONS):
        return _OWN_PASSWORD.search(cut) is not None
    return bool(cut.strip("\0 "))


def _is_secret(setting: Setting | None) -> bool:
    """Whether a setting's value is a secret. Certificates aren't, although Kafka hides them."""
    return (
        setting is not None
        and setting.is_sensitive
        and setting.name not in ("ssl.truststore.certificates", "ssl.keystore.certificate.chain")
    )


def check_settings(name: str, given: Mapping[str, str]) -> None:
    """Raise UnsafeFile if these settings of a file hold a secret that every user may read."""
    if holds_secret(given):
        _check_mode(name, os.stat(name).st_mode)


def _check_mode(name: str, mode: int) -> None:
    if mode & (stat.S_IROTH | stat.S_IWOTH):
        raise UnsafeFile(
            f"everybody on this machine may read or write {name}, which holds a secret; "
            f"chmod o-rwx {name}"
        )


def _read(name: str, *, is_secret: bool, may_be_pipe: bool) -> bytes:
    try:
        with open(name, "rb", opener=None if may_be_pipe else _open_at_once) as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode) and not (may_be_pipe and stat.S_ISFIFO(mode)):
                raise UnsafeFile(f"cannot read {name}: it is no regular file")
            if is_secret:
                _check_mode(name, mode)
            content = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UnsafeFile(f"cannot read {name}: {error.strerror}") from None
    except ValueError as error:
        if isinstance(error, UnsafeFile):
            raise
        raise UnsafeFile(f"cannot read {name!r}: this is no name of a file") from None
    if len(content) > MOST_BYTES:
        raise UnsafeFile(f"cannot read {name}: it has more than {MOST_BYTES} bytes")
    return content


def _open_at_once(name: str, flags: int) -> int:
    """Open a file, and don't wait for a pipe's other end."""
    return os.open(name, flags | os.O_NONBLOCK)
