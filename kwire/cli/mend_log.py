"""``kwire mend-log``: remove damaged batches from a partition, so that its other records are read.

Exit codes: 0 if the partition is sound now, 1 if it can't be repaired, 2 for a wrong command line.
"""

import argparse
from pathlib import Path

from kwire.cli.output import fail


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    mend = commands.add_parser(
        "mend-log",
        description="Removes damaged batches from a partition's log while no broker runs. The "
        "records in them are lost. A copy of each damaged segment is kept in the data directory.",
    )
    mend.add_argument(
        "directory",
        metavar="DIRECTORY",
        type=Path,
        help="the partition's directory: …/topic-partition",
    )
    mend.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Mend the partition; returns the exit code."""
    from kwire.log.data_directory import LogDirectoryError
    from kwire.log.disk import Disk
    from kwire.log.log_repair import repair_partition

    directory = options.directory.absolute()
    try:
        repair = repair_partition(directory, Disk())
    except (LogDirectoryError, OSError, ValueError) as error:
        return fail(f"cannot mend {directory}: {error}")
    if not repair.damages:
        print(f"{directory}: no damage found, nothing changed")
        return 0
    for damage in repair.damages:
        print(damage)
    for copy in repair.copies:
        print(f"copy of the unchanged segment: {copy}")
    return 0
