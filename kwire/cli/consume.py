"""``kwire consume``: print records of topics, alone or as a member of a group.

Rules:

- Without a place to start it begins at the end; ``--tail`` begins before the end, and stops there
  unless ``--follow`` is given.
- ``--exit`` stops at the offsets that were the ends when it started. Without ``--group`` and
  ``--tail``, partitions whose leader is missing or silent come last; it is an error if that lasts.
- Without ``--exit`` partitions without a leader hold up no others. They are named on stderr, and
  read as soon as they have a leader. With ``--tail`` and without ``--follow`` they are left out,
  which is an error.
- In a group, the offsets of printed records are committed: every five seconds, when partitions move
  to another member, and at the end. Then the member leaves.
"""

import argparse
import sys
from typing import TYPE_CHECKING

from kwire.cli.options import add_cluster_options, add_printing, count, partition_numbers, positive

if TYPE_CHECKING:
    from kwire.cli.positions import Start
    from kwire.cli.printing import Printer
    from kwire.client.cluster import Cluster


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    consume = commands.add_parser(
        "consume",
        description="Prints records as they come, until Ctrl-C, --exit or --count.",
    )
    consume.add_argument("topics", metavar="TOPIC", nargs="+")
    _add_places(consume)
    ending = consume.add_argument_group("where to stop")
    ending.add_argument("--exit", action="store_true", help="stop at the present end")
    ending.add_argument("--follow", action="store_true", help="wait for more, also after --tail")
    ending.add_argument("-n", "--count", metavar="N", type=positive, help="stop after N records")
    _add_selection(consume)
    printing = add_printing(consume)
    printing.add_argument(
        "--registry",
        metavar="URL",
        help="a schema registry: keys and values in its format are printed as JSON",
    )
    group = consume.add_argument_group("groups")
    group.add_argument("-g", "--group", metavar="GROUP", help="consume as a member of a group")
    group.add_argument(
        "--group-protocol",
        choices=("classic", "consumer"),
        default="classic",
        help="consumer is the protocol of KIP-848 (default: classic)",
    )
    add_cluster_options(consume)
    consume.set_defaults(run=run)


def _add_places(consume: argparse.ArgumentParser) -> None:
    places = consume.add_argument_group("where to start").add_mutually_exclusive_group()
    places.add_argument(
        "--from-beginning", action="store_true", help="in a group: where no offset is committed"
    )
    places.add_argument(
        "--offset", metavar="N", type=int, help="an offset; a negative one counts from the end"
    )
    places.add_argument(
        "--from-time",
        metavar="TIME",
        help="2026-01-31T12:00 in local time, @MILLISECONDS since the epoch, or 1h for an hour ago",
    )
    places.add_argument(
        "--tail",
        metavar="N",
        type=count,
        help="the last N records: of each partition the newest, merged by time; with filters the "
        "last N that pass",
    )


def _add_selection(consume: argparse.ArgumentParser) -> None:
    selection = consume.add_argument_group("which records")
    selection.add_argument(
        "-p", "--partitions", metavar="N", type=partition_numbers, help="0, or 0,2 or 0-3"
    )
    selection.add_argument("--key", metavar="REGEX", help="found in the key")
    selection.add_argument("--value", metavar="REGEX", help="found in the value")
    selection.add_argument(
        "--header",
        metavar="NAME[=REGEX]",
        action="append",
        default=[],
        help="a header with this name, REGEX found in its value; may be repeated",
    )
    selection.add_argument(
        "--read-committed", action="store_true", help="no records of open or aborted transactions"
    )


def run(options: argparse.Namespace) -> int:
    """Consume; returns the exit code."""
    from kwire.cli.output import wrong
    from kwire.cli.printing import make_printer
    from kwire.cli.session import run_on_cluster

    try:
        _check(options)
        start = _start(options)
        printer = make_printer(options)
    except (ValueError, argparse.ArgumentTypeError) as error:
        return wrong(str(error))
    if sys.stdout.isatty() and not options.exit and options.tail is None:
        print("waiting for records; Ctrl-C ends", file=sys.stderr)

    async def work(cluster: "Cluster") -> int:
        import trio

        from kwire.cli.printing import end_without_reader

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_without_reader)
            exit_code = await _consume(cluster, options, start, printer)
            nursery.cancel_scope.cancel()
        return exit_code

    return run_on_cluster(options, work)


def _check(options: argparse.Namespace) -> None:
    """ValueError for options that exclude each other, and for a group without a name."""
    if options.group == "":
        raise ValueError("--group must not be empty: name a group, or leave it out")
    excluding = [
        (options.exit and options.follow, "--exit and --follow"),
        (options.group and options.partitions is not None, "--group and --partitions"),
        (options.group and options.offset is not None, "--group and --offset"),
        (options.group and options.from_time is not None, "--group and --from-time"),
        (options.group and options.tail is not None, "--group and --tail"),
    ]
    for both, names in excluding:
        if both:
            reset = "; kwire groups reset moves a group" if options.group else ""
            raise ValueError(f"{names} exclude each other: leave one of them out{reset}")


def _start(options: argparse.Namespace) -> "Start":
    """Where to start; ValueError."""
    from kwire.cli.positions import BEGINNING, END, OFFSET, TIME, Start

    if options.from_beginning:
        return Start(BEGINNING)
    if options.offset is not None:
        return Start(OFFSET, options.offset)
    if options.tail is not None:
        return Start(OFFSET, -options.tail) if options.tail else Start(END)
    if options.from_time is not None:
        import time

        from kwire.cli.options import time_ms

        try:
            return Start(TIME, time_ms(options.from_time, int(time.time() * 1000)))
        except ValueError as error:
            text = "write 2026-01-31T12:00, @MILLISECONDS, or 1h for an hour ago"
            raise ValueError(f"--from-time {options.from_time}: {text}") from error
    return Start(END)


async def _consume(
    cluster: "Cluster", options: argparse.Namespace, start: "Start", printer: "Printer"
) -> int:
    from kwire.cli import reading
    from kwire.cli.positions import late, partitions_of_topics, start_positions

    if options.group:
        from kwire.cli.group_reading import read_in_group

        await cluster.topics(options.topics)
        return await read_in_group(cluster, options, start, printer)
    partitions = await partitions_of_topics(cluster, options.topics, options.partitions)
    missing = set(options.partitions or ()) - {one.partition for one in partitions}
    if missing:
        from kwire.cli.session import CommandError

        raise CommandError(
            f"there is no partition {min(missing)} in {', '.join(options.topics)}; "
            "kwire topics describe shows them"
        )
    reader = reading.Reader(cluster, printer, read_committed=options.read_committed)
    if options.exit and options.tail is None:
        from kwire.cli.to_the_end import read_to_the_end

        await read_to_the_end(cluster, reader, partitions, start)
        sys.stdout.flush()
        return 0
    led, without = await reader.leaderless.split(partitions)
    positions = await start_positions(cluster, led, start)
    if options.tail is not None:
        positions = await reading.print_tail(reader, positions, options.tail)
        if not options.follow:
            return int(bool(without))
    await reader.read(positions, late=late(cluster, without, start))
    sys.stdout.flush()
    return 0
