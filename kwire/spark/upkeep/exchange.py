"""Changing several files of a partition at once, while others read and write the directory.

Renames and deletions are atomic for one file each. A reader that lists the directory between two
of them would see records twice, or not at all. So a changed directory is built beside the old one,
from hard links to the files that stay, and the two are exchanged by one system call (Linux's
``renameat2`` with RENAME_EXCHANGE).

Rules:

- A reader sees the old directory or the new one. One that has listed the old names and opens them
  later may find that a file is gone: that is an error (FileNotFoundError), never wrong rows.
- While the directory is built and exchanged nobody adds a file: the sink holds ``table_lock`` while
  the files of a batch get their names. A file that a forgotten task adds all the
  same is linked into the new directory afterwards.
- Nothing is built below the directory that readers list: ``.kwire-TABLE`` beside it has the work
  of a command (``upkeep``) and what was replaced (``replaced``). See ``storage.aside_of``.
- The old directory stays as it is, out of sight, because a reader may be in the middle of listing
  it: deletions would make that list too short. Commands delete it when it is older than LISTING_S.
- A kill at any point leaves the old directory or the new one in place. What is left aside are
  copies.
- One command at a time works on a sink (``upkeep``).
"""

import ctypes
import errno
import fcntl
import os
import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kwire.spark.file_names import is_hidden, parse
from kwire.spark.storage import aside_of

LOCK = "_kwire/lock"
UPKEEP_LOCK = "_kwire/upkeep.lock"
ASIDE = "upkeep"
REPLACED = "replaced"
LISTING_S = 600
"""How long a reader may take to list a directory."""

_AT_FDCWD = -100
_RENAME_EXCHANGE = 2


class CannotExchange(RuntimeError):
    """The file system can't exchange directories; the text says what to do."""


class Changed(RuntimeError):
    """Files that a change was planned for are gone: somebody else has changed the directory."""


@contextmanager
def table_lock(top: Path) -> Iterator[None]:
    """Hold the lock of a files sink alone; it goes with the process that holds it."""
    with _locked(top / LOCK):
        yield


@contextmanager
def upkeep(top: Path) -> Iterator[Path]:
    """An empty directory aside for the work of one command; a second command waits."""
    with _locked(top / UPKEEP_LOCK):
        aside = aside_of(top, ASIDE)
        shutil.rmtree(aside, ignore_errors=True)
        aside.mkdir(parents=True)
        _delete_replaced(aside_of(top, REPLACED))
        try:
            yield aside
        finally:
            shutil.rmtree(aside, ignore_errors=True)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def change(top: Path, directory: str, removed: Collection[str], added: Mapping[str, Path]) -> None:
    """Remove and add files of a directory at once; ``added`` are moved from where they are.

    The caller is within ``upkeep``. An added file may have the name of a removed one. Raises
    Changed if a removed file is gone, and CannotExchange, both without having changed anything.
    """
    place = top / directory
    with table_lock(top):
        before = set(os.listdir(place))
        gone = set(removed) - before
        if gone:
            raise Changed(f"{place / min(gone)} is gone")
        ranges = {_range_in(directory, name) for name in removed}
        again = {one for one in before - set(removed) if _range_in(directory, one) in ranges}
        if again:
            raise Changed(f"{place / min(again)} was written meanwhile")
        twice = set(added) & (before - set(removed))
        if twice:
            raise Changed(f"{place / min(twice)} is there already")
        aside = aside_of(top, REPLACED) / f"{time.time_ns()}" / place.name
        aside.mkdir(parents=True)
        for name in before - set(removed):
            os.link(place / name, aside / name)
        for name, path in added.items():
            path.rename(aside / name)
        _exchange(aside, place)
        _link_late(aside, place, before)


def _range_in(directory: str, name: str) -> tuple[int, int, int] | str:
    """The range of a file's rows; its name if that says none."""
    found = parse(f"{directory}/{name}")
    return name if found is None else (found.incarnation, found.first, found.end)


def _delete_replaced(where: Path) -> None:
    """Delete the directories that nobody can be listing any more."""
    if where.exists():
        for path in where.iterdir():
            if int(path.name) < time.time_ns() - LISTING_S * 1_000_000_000:
                shutil.rmtree(path, ignore_errors=True)


def _link_late(old: Path, new: Path, before: Collection[str]) -> None:
    """Keep files that were added to the old directory in spite of the lock."""
    for name in set(os.listdir(old)) - set(before):
        if not is_hidden(name) and not (new / name).exists():
            os.link(old / name, new / name)


def _exchange(one: Path, other: Path) -> None:
    """Exchange two directories of a file system."""
    call = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None)
    if call is None:
        raise CannotExchange(f"{other}: exchanging directories needs Linux; {_ELSE}")
    paths = (os.fsencode(one), os.fsencode(other))
    if call(_AT_FDCWD, paths[0], _AT_FDCWD, paths[1], _RENAME_EXCHANGE) == 0:
        return
    number = ctypes.get_errno()
    if number in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
        raise CannotExchange(f"{other}: its file system can't exchange directories; {_ELSE}")
    raise OSError(number, os.strerror(number), str(other))


_ELSE = "use a file system such as ext4, xfs or btrfs, or a sink of kind delta or iceberg"
