"""``kwire strays list`` and ``remove``: logs that were put aside because their topic is gone.

A broker may have the data directory in use meanwhile: it touches no stray.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.cli.output import fail

if TYPE_CHECKING:
    from kwire.log.strays import Stray


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's options."""
    strays = commands.add_parser("strays", help="list or remove logs whose topic is gone")
    actions = strays.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser(
        "list",
        help="name them, with their size",
        description="Lists the directories that end in -stray: logs that a broker has put aside "
        "because their topic is gone. A broker may be running.",
    )
    removing = actions.add_parser(
        "remove",
        help="remove them for good",
        description="Removes directories that end in -stray, for good. A broker may be running: "
        "it touches none of them.",
    )
    for action in (listing, removing):
        action.add_argument(
            "--data-dir",
            metavar="DIR",
            action="append",
            required=True,
            type=Path,
            help="a data directory (an entry of log.dirs); may be repeated",
        )
    removing.add_argument("names", metavar="NAME", nargs="*", help="a directory that list names")
    removing.add_argument("--all", action="store_true", help="remove every one")
    listing.set_defaults(run=run_list)
    removing.set_defaults(run=run_remove)


def run_list(options: argparse.Namespace) -> int:
    """List the strays; the exit code."""
    from kwire.log.read_only_disk import ReadOnlyDisk
    from kwire.log.strays import find_strays

    for directory in options.data_dir:
        try:
            strays = find_strays(directory, ReadOnlyDisk())
        except OSError as error:
            return fail(f"cannot read {directory}: {error.strerror or error}")
        _print("", strays)
    return 0


def run_remove(options: argparse.Namespace) -> int:
    """Remove strays; the exit code."""
    from kwire.log.disk import Disk
    from kwire.log.strays import NoSuchStray, remove_strays

    if bool(options.names) == options.all:
        return fail("name the strays to remove, or give --all; kwire strays list shows them")
    if options.names and len(options.data_dir) > 1:
        return fail("names belong to one data directory: give --data-dir once")
    for directory in options.data_dir:
        try:
            removed = remove_strays(directory, None if options.all else options.names, Disk())
        except NoSuchStray as error:
            return fail(f"{error}; kwire strays list --data-dir {directory} shows what there is")
        except OSError as error:
            return fail(f"cannot remove strays of {directory}: {error.strerror or error}")
        _print("removed ", removed)
    return 0


def _print(verb: str, strays: "list[Stray]") -> None:
    for stray in strays:
        print(f"{verb}{stray.path} ({stray.log}, {stray.size_bytes / 1e6:.1f} MB)")
