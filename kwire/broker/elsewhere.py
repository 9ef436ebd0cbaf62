"""What a data directory says of metadata that isn't in it: the store of the cluster it belongs to.

Rules:

- A broker of a cluster on etcd notes the store's address in its directory, each time it has joined.
- Without that metadata a broker would make topics anew from the names of their directories, without
  their settings, and without users, rights and quotas. So a start without the store is refused.
- A directory of an older kwire may have no note, but the metadata that it brought along: ``MOVED``.
"""

from pathlib import Path

from kwire.config.metadata_store import EXAMPLE, SETTING
from kwire.log.disk import Disk
from kwire.metadata.embedded import FILE_NAME

MOVED = f"{FILE_NAME}.moved"
"""What the metadata of a broker that was alone is called once the cluster has it."""

NOTE = "kwire-metadata.store"


def kept_elsewhere(directory: Path) -> str | None:
    """Why a broker can't start without the store of its cluster, in one line; None if it can."""
    try:
        store = (directory / NOTE).read_text().strip()
    except (OSError, ValueError):
        store = ""
    if not store and not (directory / MOVED).exists():
        return None
    return (
        f"{directory} belongs to a cluster, whose metadata is in {store or 'etcd'}: "
        f"start with {SETTING}={store or EXAMPLE}, as before, or with another data directory"
    )


def note_store(directory: Path, address: str, disk: Disk) -> None:
    """Note the address of the store; OSError."""
    path = directory / NOTE
    content = address.encode() + b"\n"
    if not path.exists() or path.read_bytes() != content:
        disk.write_atomically(path, content)
