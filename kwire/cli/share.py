"""``kwire share``: share groups, the queues of Kafka (KIP-932).

Only kwire serves the request of ``describe --records``. Another broker closes the connection.
"""

import argparse
from typing import TYPE_CHECKING, Any

from kwire.cli.group_reset import add_places, add_topics, named_partitions, start_of
from kwire.cli.options import add_cluster_options, add_json, add_printing, positive
from kwire.cli.planning import add_plan_options

MOST_WORKERS = 64

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from kwire.cli.planning import Step
    from kwire.client.cluster import Cluster
    from kwire.client.groups import GroupView
    from kwire.client.leaders import TopicPartition
    from kwire.client.share_groups import ShareOffset
    from kwire.errors import KafkaError


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command, its actions and their options."""
    share = commands.add_parser("share")
    actions = share.add_subparsers(dest="action", required=True, metavar="ACTION")
    consume = _add_consume(actions)
    listing = actions.add_parser(
        "list",
        help="list share groups with their members and what is left",
        description="Lists share groups. The lag is how many records are not done.",
    )
    describe = actions.add_parser(
        "describe",
        help="show the state, the members, the partitions and the records in flight",
        description="Shows the state of share groups, and for each partition its start offset, the "
        "lag (how many records after it are not done) and its members.",
    )
    describe.add_argument("groups", metavar="GROUP", nargs="+")
    what = describe.add_mutually_exclusive_group()
    what.add_argument("--members", action="store_true", help="one line for each member")
    what.add_argument(
        "--records",
        action="store_true",
        help="the records in flight: who has them, for how long, how often they were delivered "
        "(kwire only)",
    )
    reset = actions.add_parser(
        "reset",
        help="set the start offsets of a share group that has no members",
        description="Sets the start offsets of a share group without members. What was done after "
        "a new start offset is delivered again, and all deliveries count anew.",
    )
    reset.add_argument("group", metavar="GROUP")
    add_topics(reset, "default: all that have a start offset")
    add_places(reset)
    dead = _add_dead_letters(actions)
    forget = actions.add_parser(
        "delete-offsets",
        help="delete what a share group without members keeps of topics",
        description="Deletes the start offsets and the records' states of topics in a share group "
        "without members. The next member begins by the group's share.auto.offset.reset.",
    )
    forget.add_argument("group", metavar="GROUP")
    forget.add_argument("topics", metavar="TOPIC", nargs="+")
    for action in (reset, forget, dead):
        add_plan_options(action, asks=True)
    add_cluster_options(consume)
    consume.set_defaults(run=run_consume)
    for action, run in (
        (listing, run_list),
        (describe, run_describe),
        (reset, run_reset),
        (forget, run_delete_offsets),
        (dead, run_dead_letters),
    ):
        add_json(action)
        add_cluster_options(action)
        action.set_defaults(run=run)


def _add_dead_letters(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> argparse.ArgumentParser:
    dead = actions.add_parser(
        "dead-letters",
        help="show which records are dead and why, or send them to their topic again",
        description="Shows the dead letters of a share group: the records that were rejected, or "
        "delivered too often, by the topic that the group's errors.deadletterqueue.topic.name "
        "names. With --replay, sends each of these records to its topic once more, and no second "
        "time: topic TOPIC-replayed has the marks.",
    )
    dead.add_argument("group", metavar="GROUP")
    dead.add_argument("--topic", metavar="TOPIC", help="where they are (default: by the config)")
    dead.add_argument("--replay", action="store_true", help="send the records again")
    dead.add_argument("--to", metavar="TOPIC", help="send them here, not where they came from")
    return dead


def _add_consume(
    actions: "argparse._SubParsersAction[argparse.ArgumentParser]",
) -> argparse.ArgumentParser:
    consume = actions.add_parser(
        "consume",
        help="print the records of a queue, or give each to a command",
        description="Consumes as a member of a share group, until Ctrl-C, --exit or --count. A "
        "printed record is accepted. A new group begins by its share.auto.offset.reset, which is "
        "the end unless kwire configs set group GROUP share.auto.offset.reset=earliest says "
        "otherwise.",
    )
    consume.add_argument("topics", metavar="TOPIC", nargs="+")
    consume.add_argument("-g", "--group", metavar="GROUP", required=True, help="the share group")
    consume.add_argument(
        "--exec",
        metavar="COMMAND",
        help="run this with each record's value on standard input. Exit code 0 accepts the record, "
        "65 rejects it, any other, and a signal, releases it: it is delivered again, until "
        "share.delivery.count.limit. While it runs, the record's lock is renewed. 126 "
        "and 127 end kwire, for the shell can't run the command. "
        "KWIRE_TOPIC, KWIRE_PARTITION, KWIRE_OFFSET, KWIRE_DELIVERY and KWIRE_KEY say which "
        "record it is",
    )
    consume.add_argument(
        "--workers",
        metavar="N",
        type=positive,
        default=1,
        help=f"run so many commands at a time, {MOST_WORKERS} at most (default: 1)",
    )
    ending = consume.add_argument_group("where to stop")
    ending.add_argument("--exit", action="store_true", help="stop when no record is available")
    ending.add_argument("-n", "--count", metavar="N", type=positive, help="stop after N records")
    add_printing(consume)
    return consume


def run_consume(options: argparse.Namespace) -> int:
    """Consume; returns the exit code."""
    from kwire.cli.output import wrong

    if not options.group:
        return wrong("--group must not be empty: name a group")
    if options.workers > 1 and not options.exec:
        return wrong("--workers is for --exec: without it, start several kwire share consume")
    if options.workers > MOST_WORKERS:
        return wrong(f"--workers {options.workers}: at most {MOST_WORKERS} commands run at a time")

    from kwire.cli.printing import make_printer
    from kwire.cli.session import run_on_cluster

    options.key = options.value = None  # the records of a queue aren't chosen
    options.header = []
    printer = make_printer(options)

    async def work(cluster: "Cluster") -> int:
        import trio

        from kwire.cli.printing import end_on_sigterm, end_without_reader
        from kwire.cli.share_reading import consume

        async with trio.open_nursery() as nursery:
            nursery.start_soon(end_without_reader)
            nursery.start_soon(end_on_sigterm)
            exit_code = await consume(cluster, options, printer)
            nursery.cancel_scope.cancel()
        return exit_code

    return run_on_cluster(options, work)


def run_list(options: argparse.Namespace) -> int:
    """List share groups; returns the exit code."""
    from kwire.cli.session import run_on_cluster
    from kwire.cli.tables import show

    async def work(cluster: "Cluster") -> int:
        from kwire.cli.group_views import listed_groups

        columns = ("group", "state", "members", "lag")
        found = [row for row in await listed_groups(cluster) if row["type"] == "share"]
        rows = [{key: row[key] for key in columns} for row in found]
        show(rows, columns, as_json=options.json, nothing="no share groups yet")
        return 0

    return run_on_cluster(options, work)


def run_describe(options: argparse.Namespace) -> int:
    """Describe share groups; returns the exit code."""
    from kwire.cli.session import run_on_cluster

    async def work(cluster: "Cluster") -> int:
        from kwire.cli.group_views import show_groups
        from kwire.cli.share_views import (
            described_share_group,
            records_in_flight,
            show_share_partitions,
        )

        groups = []
        for name in options.groups:
            group = await _share_group(cluster, name)
            found = await described_share_group(cluster, group)
            if options.records:
                found |= await records_in_flight(cluster, group)
            groups.append(found)
        show_groups(options, groups, show_share_partitions)
        return 0

    return run_on_cluster(options, work)


async def _share_group(cluster: "Cluster", name: str) -> "GroupView":
    """A share group; CommandError for one of another type, KafkaError."""
    from kwire.cli.session import CommandError
    from kwire.client.groups import describe_group

    group = await describe_group(cluster, name)
    if group.type != "share":
        raise CommandError(f"{name} is a {group.type} group: kwire groups takes it")
    return group


def run_reset(options: argparse.Namespace) -> int:
    """Set start offsets; returns the exit code."""
    from kwire.cli.output import wrong
    from kwire.cli.planning import Step
    from kwire.cli.session import CommandError, run_on_cluster

    try:
        start = start_of(options)
    except ValueError as error:
        return wrong(str(error))
    assert start is not None  # one of the places has to be given, and --by is not among them

    async def work(cluster: "Cluster") -> int:
        from kwire.cli.positions import start_positions
        from kwire.client.share_groups import alter_share_offsets, share_offsets

        await _refuse_members(cluster, options.group)
        known = await share_offsets(cluster, options.group)
        topics = options.topics
        partitions = await named_partitions(cluster, topics) if topics else sorted(known)
        if not partitions:
            text = f"group {options.group} has no start offset: name topics with --topic"
            raise CommandError(text)
        offsets = await start_positions(cluster, partitions, start)
        steps = [
            Step(str(one), f"set {one} from {_told(known, one)} to {offset}")
            for one, offset in offsets.items()
        ]

        async def carry_out() -> "dict[TopicPartition, KafkaError | None]":
            return await alter_share_offsets(cluster, options.group, offsets)

        return await _carry_out(options, steps, carry_out)

    return run_on_cluster(options, work)


def run_delete_offsets(options: argparse.Namespace) -> int:
    """Delete start offsets; returns the exit code."""
    from kwire.cli.planning import Step
    from kwire.cli.session import run_on_cluster

    async def work(cluster: "Cluster") -> int:
        from kwire.client.share_groups import delete_share_offsets

        await _refuse_members(cluster, options.group)
        topics = list(dict.fromkeys(options.topics))
        steps = [Step(name, f"delete the start offsets of topic {name}") for name in topics]

        async def carry_out() -> "dict[str, KafkaError | None]":
            return await delete_share_offsets(cluster, options.group, topics)

        return await _carry_out(options, steps, carry_out)

    return run_on_cluster(options, work)


def run_dead_letters(options: argparse.Namespace) -> int:
    """Show dead letters or replay them; returns the exit code."""
    from kwire.cli.output import wrong
    from kwire.cli.session import run_on_cluster

    if not options.replay:
        for name in ("to", "dry_run", "yes"):
            if getattr(options, name):
                return wrong(f"--{name.replace('_', '-')} is for --replay")

    async def work(cluster: "Cluster") -> int:
        from kwire.cli.share_dead_letters import dead_letters, replay, show_letters

        letters = await dead_letters(cluster, options.group, options.topic)
        if options.replay:
            return await replay(cluster, letters, options)
        show_letters(letters, options)
        return 0

    return run_on_cluster(options, work)


def _told(known: "dict[TopicPartition, ShareOffset]", one: "TopicPartition") -> str:
    offset = known[one].start_offset if one in known else None
    return "no offset" if offset is None else str(offset)


async def _refuse_members(cluster: "Cluster", name: str) -> None:
    """CommandError if the group has members: Kafka changes no offsets under them."""
    from kwire.cli.session import CommandError

    group = await _share_group(cluster, name)
    if count := len(group.members):
        raise CommandError(
            f"group {name} has {count} member{'s' * (count > 1)}: stop them first; "
            f"kwire share describe {name} --members shows them"
        )


async def _carry_out(
    options: argparse.Namespace,
    steps: "list[Step]",
    change: "Callable[[], Awaitable[dict[Any, KafkaError | None]]]",
) -> int:
    """Show the plan, and carry it out unless that isn't wanted; returns the exit code."""
    from kwire.cli.outcomes import Outcomes
    from kwire.cli.planning import begins, unchanged

    if not begins(options, steps):
        return unchanged(options, steps)
    outcomes, texts = Outcomes(options), {step.name: step.text for step in steps}
    for one, error in (await change()).items():
        if error is None:
            outcomes.done(str(one), f"done: {texts[str(one)]}")
        else:
            outcomes.failed(str(one), error)
    return outcomes.finish()
