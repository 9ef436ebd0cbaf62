"""What a data directory says of metadata that isn't in it: the store of the cluster it belongs to.

Rules:

- A broker of a cluster on etcd notes the store's address in its directory, each time it has joined.
- Without that metadata a broker would make topics anew from the names of their directories, without
  their settings, and without users, rights and quotas. So a start without the store is refused.
- A directory of an older kwire may have no note, but the metadata that it brought along: ``MOVED``.
- Where the noted store has nothing of a cluster any more, another directory may have its metadata,
  after ``kwire leave-store``. A broker that began a new cluster there would be in its way.
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
    store = noted_store(directory)
    if not store and not (directory / MOVED).exists():
        return None
    return (
        f"{directory} belongs to a cluster, whose metadata is in {store or 'etcd'}: "
        f"start with {SETTING}={store or EXAMPLE}, as before, or take the metadata back with "
        f"kwire leave-store --data-dir {directory}"
    )


def noted_store(directory: Path) -> str:
    """The address of the store whose cluster a directory belongs to; empty if none is noted."""
    try:
        return (directory / NOTE).read_text().strip()
    except (OSError, ValueError):
        return ""


def why_not_new(directory: Path, address: str) -> str | None:
    """Why a broker must not begin a cluster in an empty store, in one line; None if it may."""
    if noted_store(directory) != address or (directory / FILE_NAME).exists():
        return None
    return (
        f"{address} has no metadata any more of the cluster that {directory} belongs to: start the "
        f"broker first whose directory has {FILE_NAME}, after kwire leave-store, or restore etcd; "
        f"remove {directory / NOTE} to begin a new cluster"
    )


def note_store(directory: Path, address: str, disk: Disk) -> None:
    """Note the address of the store; OSError."""
    path = directory / NOTE
    content = address.encode() + b"\n"
    if not path.exists() or path.read_bytes() != content:
        disk.write_atomically(path, content)


def forget_store(directory: Path) -> None:
    """Remove what notes that the metadata is elsewhere, now that it is here; OSError."""
    for name in (NOTE, MOVED):
        (directory / name).unlink(missing_ok=True)
