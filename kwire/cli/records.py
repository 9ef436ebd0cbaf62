"""``kwire records delete``: delete the records of a topic before an offset or a time."""

import argparse
from typing import TYPE_CHECKING

from kwire.cli.options import add_cluster_options, add_json, count, partition_numbers

if TYPE_CHECKING:
    from kwire.cli.positions import Start
    from kwire.client.cluster import Cluster


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command, its action and its options."""
    records = commands.add_parser("records")
    actions = records.add_subparsers(dest="action", required=True, metavar="ACTION")
    delete = actions.add_parser(
        "delete",
        help="delete the records before an offset or a time, for good",
        description="Deletes the records of each partition before an offset or a time, for good. "
        "The log start offset moves there.",
    )
    delete.add_argument("topic", metavar="TOPIC")
    place = delete.add_mutually_exclusive_group(required=True)
    place.add_argument("--before-offset", metavar="N", type=count, help="an offset")
    place.add_argument("--before-time", metavar="TIME", help="as --from-time of kwire consume")
    place.add_argument("--all", action="store_true", help="every record")
    delete.add_argument(
        "-p", "--partitions", metavar="N", type=partition_numbers, help="default: all"
    )
    delete.add_argument("--dry-run", action="store_true", help="only print what would be deleted")
    add_json(delete)
    add_cluster_options(delete)
    delete.set_defaults(run=run_delete)


def run_delete(options: argparse.Namespace) -> int:
    """Delete records; returns the exit code."""
    from kwire.cli.output import wrong
    from kwire.cli.session import run_on_cluster

    try:
        start = _start(options)
    except ValueError as error:
        return wrong(str(error))

    async def work(cluster: "Cluster") -> int:
        from kwire.cli.positions import partitions_of_topics, start_positions
        from kwire.cli.session import CommandError
        from kwire.cli.tables import show
        from kwire.client.deletion import delete_records
        from kwire.client.offsets import all_or_raise, ends_of, starts_of

        partitions = await partitions_of_topics(cluster, [options.topic], options.partitions)
        missing = set(options.partitions or ()) - {one.partition for one in partitions}
        if missing:
            raise CommandError(f"{options.topic} has no partition {min(missing)}")
        first, last = await starts_of(cluster, partitions), await ends_of(cluster, partitions)
        wanted = await start_positions(cluster, partitions, start)
        wanted = {one: min(max(wanted[one], first[one]), last[one]) for one in partitions}
        if not options.dry_run:
            wanted = all_or_raise(await delete_records(cluster, wanted))
        rows = [
            {
                "topic": one.topic,
                "partition": one.partition,
                "start_before": first[one],
                "start": start_offset,
                "offsets": start_offset - first[one],
            }
            for one, start_offset in wanted.items()
        ]
        title = "WOULD START" if options.dry_run else "STARTS NOW"
        columns = {"topic": "TOPIC", "partition": "PARTITION", "start_before": "STARTED"}
        columns |= {"start": title, "offsets": "OFFSETS DELETED"}
        show(rows, columns, as_json=options.json)
        return 0

    return run_on_cluster(options, work)


def _start(options: argparse.Namespace) -> "Start":
    """The place before which records are deleted; ValueError."""
    import time

    from kwire.cli.options import time_ms
    from kwire.cli.positions import END, OFFSET, TIME, Start

    if options.all:
        return Start(END)
    if options.before_offset is not None:
        return Start(OFFSET, options.before_offset)
    try:
        return Start(TIME, time_ms(options.before_time, int(time.time() * 1000)))
    except ValueError as error:
        text = "write 2026-01-31T12:00, @MILLISECONDS, or 1h for an hour ago"
        raise ValueError(f"--before-time {options.before_time}: {text}") from error
