"""Files that hold secrets, which only their owner and group may read.

Source: none in Kafka, which reads any file.
"""

import stat
from pathlib import Path


class UnsafeFile(ValueError):
    """A file can't be read, or everybody can read it; the text says so in one line."""


def read_secret(name: str) -> bytes:
    """The content of a file with a secret; UnsafeFile."""
    path = Path(name)
    try:
        with path.open("rb") as file:
            mode = path.stat().st_mode
            if mode & (stat.S_IROTH | stat.S_IWOTH):
                raise UnsafeFile(
                    f"everybody on this machine may read or write {name}, which holds a secret; "
                    f"chmod o-rwx {name}"
                )
            return file.read()
    except OSError as error:
        raise UnsafeFile(f"cannot read {name}: {error.strerror}") from None


def read_public(name: str) -> bytes:
    """The content of a file without secrets; UnsafeFile if it can't be read."""
    try:
        return Path(name).read_bytes()
    except OSError as error:
        raise UnsafeFile(f"cannot read {name}: {error.strerror}") from None
