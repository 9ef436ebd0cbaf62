"""``kwire groups reset`` and ``delete-offsets``: change the committed offsets of a group.

Without ``--execute`` only the plan is printed, as with Kafka's own tool.
"""

import argparse
from typing import TYPE_CHECKING, Any

from kwire.cli.options import add_cluster_options, add_json, count, topic_partitions

if TYPE_CHECKING:
    from kwire.cli.positions import Start
    from kwire.client.cluster import Cluster
    from kwire.client.leaders import TopicPartition


def add_parsers(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the two actions and their options."""
    reset = actions.add_parser(
        "reset",
        help="set the committed offsets of a group that has no members",
        description="Sets the committed offsets of a group without members. Prints what would "
        "change; --execute changes it.",
    )
    reset.add_argument("group", metavar="GROUP")
    add_topics(reset, "default: all that have an offset")
    place = add_places(reset)
    place.add_argument("--by", metavar="N", type=int, help="forward, or back with a negative N")
    safety = reset.add_mutually_exclusive_group()
    safety.add_argument("--execute", action="store_true", help="change the offsets")
    safety.add_argument("--dry-run", action="store_true", help="only print the plan (default)")
    forget = actions.add_parser("delete-offsets", help="delete committed offsets of a group")
    forget.add_argument("group", metavar="GROUP")
    add_topics(forget, "the topics")
    for action, run in ((reset, run_reset), (forget, run_delete_offsets)):
        add_json(action)
        add_cluster_options(action)
        action.set_defaults(run=run)


def add_places(parser: argparse.ArgumentParser) -> "argparse._MutuallyExclusiveGroup":
    """Add the options for the place to set offsets to; ``start_of`` reads them."""
    place = parser.add_mutually_exclusive_group(required=True)
    place.add_argument("--to-beginning", action="store_true", help="the first record")
    place.add_argument("--to-end", action="store_true", help="after the last record")
    place.add_argument("--to-offset", metavar="N", type=count, help="an offset")
    place.add_argument("--to-time", metavar="TIME", help="as --from-time of kwire consume")
    return place


def add_topics(parser: argparse.ArgumentParser, text: str) -> None:
    """Add the option for topics and partitions; ``named_partitions`` reads it."""
    parser.add_argument(
        "-t",
        "--topic",
        metavar="TOPIC[:N]",
        dest="topics",
        type=topic_partitions,
        action="append",
        default=[],
        help=f"a topic, or some of its partitions, orders:0-2; may be repeated; {text}",
    )


def run_reset(options: argparse.Namespace) -> int:
    """Reset offsets; returns the exit code."""
    from kwire.cli.output import wrong
    from kwire.cli.session import run_on_cluster
    from kwire.cli.tables import show
    from kwire.client.group_offsets import commit_offsets

    try:
        start = start_of(options)
    except ValueError as error:
        return wrong(str(error))

    async def work(cluster: "Cluster") -> int:
        await _refuse_members(cluster, options.group)
        rows, offsets = await _plan_changes(cluster, options, start)
        if options.execute and offsets:
            await commit_offsets(cluster, options.group, offsets)
        columns = ("topic", "partition", "committed", "new", "change")
        show(rows, columns, as_json=options.json, nothing="no offset is committed")
        if not options.json and rows:
            print("done" if options.execute else "nothing is changed yet: --execute changes it")
        return 0

    return run_on_cluster(options, work)


def start_of(options: argparse.Namespace) -> "Start | None":
    """The place to set offsets to, None for ``--by``; ValueError."""
    import time

    from kwire.cli.options import time_ms
    from kwire.cli.positions import BEGINNING, END, OFFSET, TIME, Start

    if options.to_beginning:
        return Start(BEGINNING)
    if options.to_end:
        return Start(END)
    if options.to_offset is not None:
        return Start(OFFSET, options.to_offset)
    if getattr(options, "by", None) is not None:
        return None
    try:
        return Start(TIME, time_ms(options.to_time, int(time.time() * 1000)))
    except ValueError as error:
        text = "write 2026-01-31T12:00, @MILLISECONDS, or 1h for an hour ago"
        raise ValueError(f"--to-time {options.to_time}: {text}") from error


async def _refuse_members(cluster: "Cluster", group: str) -> None:
    """CommandError for a share group, and if there are members: they would overwrite offsets."""
    from kwire.cli.session import CommandError
    from kwire.client.groups import describe_group
    from kwire.errors import ErrorCode, KafkaError

    try:
        found = await describe_group(cluster, group)
    except KafkaError as error:
        if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
            return
        raise
    if found.type == "share":
        raise CommandError(f"{group} is a share group: kwire share reset sets its start offsets")
    if count := len(found.members):
        raise CommandError(
            f"group {group} has {count} member{'s' * (count > 1)}: stop them first; "
            f"kwire groups describe {group} --members shows them"
        )


async def _refuse_share_group(cluster: "Cluster", group: str) -> None:
    """CommandError for a share group, which has no committed offsets."""
    from kwire.cli.session import CommandError
    from kwire.client.group_overview import types_of_groups

    if (await types_of_groups(cluster)).get(group) == "share":
        text = "kwire share delete-offsets deletes its start offsets"
        raise CommandError(f"{group} is a share group: {text}")


async def _plan_changes(
    cluster: "Cluster", options: argparse.Namespace, start: "Start | None"
) -> "tuple[list[dict[str, Any]], dict[TopicPartition, int]]":
    """The changes, to be shown and to be committed. New offsets stay within the partitions."""
    from kwire.cli.positions import start_positions
    from kwire.cli.session import CommandError
    from kwire.client.group_offsets import committed_offsets
    from kwire.client.offsets import ends_of, starts_of

    committed = await committed_offsets(cluster, options.group)
    partitions = (
        await named_partitions(cluster, options.topics) if options.topics else sorted(committed)
    )
    if not partitions:
        raise CommandError(
            f"group {options.group} has no committed offset: name topics with --topic"
        )
    first, last = await starts_of(cluster, partitions), await ends_of(cluster, partitions)
    if start is None:
        missing = [one for one in partitions if one not in committed]
        if missing:
            raise CommandError(f"--by: {missing[0]} has no committed offset to start from")
        wanted = {one: committed[one] + options.by for one in partitions}
    else:
        wanted = await start_positions(cluster, partitions, start)
    offsets = {one: min(max(wanted[one], first[one]), last[one]) for one in partitions}
    rows = [
        {
            "topic": one.topic,
            "partition": one.partition,
            "committed": committed.get(one),
            "new": offset,
            "change": offset - committed[one] if one in committed else None,
        }
        for one, offset in offsets.items()
    ]
    return rows, offsets


async def named_partitions(
    cluster: "Cluster", wanted: list[tuple[str, list[int] | None]]
) -> "list[TopicPartition]":
    """The partitions of topics, or some of them by number; CommandError for an unknown number."""
    from kwire.cli.positions import partitions_of_topics
    from kwire.cli.session import CommandError

    found = []
    for topic, only in wanted:
        mine = await partitions_of_topics(cluster, [topic], only)
        missing = set(only or ()) - {one.partition for one in mine}
        if missing:
            raise CommandError(f"{topic} has no partition {min(missing)}")
        found += mine
    return sorted(set(found))


def run_delete_offsets(options: argparse.Namespace) -> int:
    """Delete offsets; returns the exit code."""
    from kwire.cli.outcomes import Outcomes
    from kwire.cli.output import wrong
    from kwire.cli.session import run_on_cluster
    from kwire.client.group_offsets import delete_offsets

    if not options.topics:
        return wrong("name the topics with --topic; kwire groups delete deletes a whole group")

    async def work(cluster: "Cluster") -> int:
        await _refuse_share_group(cluster, options.group)
        outcomes = Outcomes(options)
        partitions = await named_partitions(cluster, options.topics)
        for one, error in (await delete_offsets(cluster, options.group, partitions)).items():
            if error is None:
                outcomes.done(str(one), f"deleted the offset of {one}")
            else:
                outcomes.failed(str(one), error)
        return outcomes.finish()

    return run_on_cluster(options, work)
