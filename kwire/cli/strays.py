"""``kwire strays list`` and ``remove``: logs put aside for which a broker had no partition.

A broker may use the data directory at the same time, because it doesn't use strays.
"""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.cli.output import fail, wrong

if TYPE_CHECKING:
    from kwire.log.stray_partitions import Stray


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    strays = commands.add_parser("strays")
    actions = strays.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser(
        "list",
        help="list strays with their size",
        description="Lists the directories that end in -stray: logs that a broker has put aside "
        "because their topic was deleted, or their replica moved away, while it was down. A broker "
        "may be running.",
    )
    removing = actions.add_parser(
        "remove",
        help="remove strays for good",
        description="Removes directories that end in -stray, for good. A broker may be running: "
        "it doesn't use these directories.",
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
    removing.add_argument("names", metavar="NAME", nargs="*", help="a directory from the list")
    removing.add_argument("--all", action="store_true", help="remove every stray")
    listing.set_defaults(run=run_list)
    removing.set_defaults(run=run_remove)


def run_list(options: argparse.Namespace) -> int:
    """List the strays; returns the exit code."""
    from kwire.log.read_only_disk import ReadOnlyDisk
    from kwire.log.stray_partitions import find_strays

    for directory in options.data_dir:
        try:
            strays = find_strays(directory, ReadOnlyDisk())
        except OSError as error:
            return fail(f"cannot read {directory}: {error.strerror or error}")
        _print("", strays)
    return 0


def run_remove(options: argparse.Namespace) -> int:
    """Remove strays; returns the exit code."""
    from kwire.log.disk import Disk
    from kwire.log.stray_partitions import NoSuchStray, remove_strays

    if bool(options.names) == options.all:
        return wrong("name the strays to remove, or give --all; kwire strays list shows them")
    if options.names and len(options.data_dir) > 1:
        return wrong("NAME belongs to one data directory: give --data-dir once")
    for directory in options.data_dir:
        try:
            removed = remove_strays(directory, None if options.all else options.names, Disk())
        except NoSuchStray as error:
            return fail(f"{error}; kwire strays list --data-dir {directory} lists the strays")
        except OSError as error:
            return fail(f"cannot remove strays of {directory}: {error.strerror or error}")
        _print("removed ", removed)
    return 0


def _print(verb: str, strays: "list[Stray]") -> None:
    for stray in strays:
        print(f"{verb}{stray.path} ({stray.log}, {stray.size_bytes / 1e6:.1f} MB)")
