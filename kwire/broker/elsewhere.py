"""A note in a data directory: where the metadata of its cluster is, if it isn't in the directory.

Rules:

- A broker of a cluster on etcd notes the store's address in its directory, each time it has joined.
- Without the cluster's metadata a broker would make topics anew from the names of their
  directories, without their settings, and without users, rights and quotas. So a start without the
  store is refused.
- A directory of an older kwire may have no note. It has the file ``MOVED`` instead, if its broker
  was alone before it joined the cluster.
- The noted store may have lost the cluster's metadata because ``kwire leave-store`` has taken the
  metadata back into the directory of another broker. If this broker began a new cluster in the
  empty store, the other broker couldn't bring the metadata back into it. So the start is refused.
"""

from pathlib import Path

from kwire.config.metadata_store import EXAMPLE, SETTING
from kwire.log.disk import Disk
from kwire.metadata.embedded import FILE_NAME

MOVED = f"{FILE_NAME}.moved"
"""A broker that was alone has its metadata in a file. The file gets this name when the cluster has
taken the metadata over."""

NOTE = "kwire-metadata.store"


def kept_elsewhere(directory: Path) -> str | None:
    """Why a broker can't start without the store of its cluster, in one line; None if it can."""
    store = noted_store(directory)
    if not store and not (directory / MOVED).exists():
        return None
    return (
        f"{directory} belongs to a cluster, whose metadata is in {store or 'etcd'}: "
        f"start with {SETTING}={store or EXAMPLE}, as before, or take the metadata back with "
        f"kwire leave-store --data-dir {directory}; if that was done with another directory, serve "
        f"the other one, which has {FILE_NAME}: the replicas in this one were left behind"
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
        f"{directory} belongs to a cluster whose metadata is no longer in {address}: if kwire "
        f"leave-store was used, serve the directory that has {FILE_NAME}, without {SETTING}, or "
        "with it and before this one if the cluster is to be on etcd again; otherwise restore "
        f"etcd; or remove {directory / NOTE} to begin a new cluster"
    )


def note_store(directory: Path, address: str, disk: Disk) -> None:
    """Note the address of the store; OSError."""
    path = directory / NOTE
    content = address.encode() + b"\n"
    if not path.exists() or path.read_bytes() != content:
        disk.write_atomically(path, content)


def forget_store(directory: Path) -> None:
    """Remove the note and ``MOVED``, because the metadata is in this directory now; OSError."""
    for name in (NOTE, MOVED):
        (directory / name).unlink(missing_ok=True)
