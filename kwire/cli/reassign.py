"""``kwire reassign``: move replicas to other brokers; plan, run, status, cancel, unthrottle.

A plan is written and read in the format of Kafka's kafka-reassign-partitions.sh, so that either
tool can carry out the other's.
"""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from kwire.cli.options import (
    add_cluster_options,
    add_json,
    partition_numbers,
    positive,
    topic_partitions,
)
from kwire.cli.planning import Step, add_plan_options

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from kwire.client.cluster import Cluster
    from kwire.client.leaders import TopicPartition

    Assignment = dict[TopicPartition, list[int]]

_LOOK_AGAIN_S = 0.5
_VERSION = 1


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command, its actions and their options."""
    reassign = commands.add_parser("reassign")
    actions = reassign.add_subparsers(dest="action", required=True, metavar="ACTION")
    planning = actions.add_parser(
        "plan",
        help="show which replicas would move, and write a file for run",
        description="Shows which replicas would move so that the brokers share them evenly, with "
        "as few moves as possible. --json prints a file for `kwire reassign run`, which "
        "kafka-reassign-partitions.sh takes too.",
    )
    running = actions.add_parser(
        "run",
        help="move replicas, and wait until they are moved",
        description="Moves replicas as a file of `kwire reassign plan --json` says, or as such a "
        "plan for the topics and brokers that the options name, and waits until all are moved. "
        "Ctrl-C ends the wait, not the moves.",
    )
    status = actions.add_parser("status", help="show the moves that go on")
    cancel = actions.add_parser("cancel", help="cancel moves: replicas stay where they were")
    cancel.set_defaults(throttle=None)
    unthrottle = actions.add_parser(
        "unthrottle",
        help="take away the limits of run --throttle",
        description="Takes the limits for copying replicas from topics and from all brokers. "
        "`kwire reassign run --throttle` does so itself when all is moved, unless it was ended "
        "before that.",
    )
    running.add_argument("--file", metavar="FILE", help="a plan; - is standard input")
    running.add_argument(
        "--throttle",
        metavar="BYTES",
        type=positive,
        help="how many bytes a second each broker copies at most, until all is moved; with "
        "--no-wait until kwire reassign unthrottle",
    )
    running.add_argument("--no-wait", action="store_true", help="only begin the moves")
    for action in (planning, running):
        action.add_argument(
            "topics", metavar="TOPIC[:N]", type=topic_partitions, nargs="*", help="default: all"
        )
        action.add_argument(
            "--brokers", metavar="ID,…", type=partition_numbers, help="1,2 or 1-3; default: all"
        )
        action.add_argument(
            "-r", "--replication-factor", metavar="N", type=positive, help="default: as now"
        )
    for action in (status, cancel, unthrottle):
        action.add_argument(
            "topics", metavar="TOPIC[:N]", type=topic_partitions, nargs="*", help="default: all"
        )
    for action, run in (
        (planning, run_plan),
        (running, run_run),
        (status, run_status),
        (cancel, run_cancel),
        (unthrottle, run_unthrottle),
    ):
        if action in (running, cancel):
            add_plan_options(action, asks=True)
        if action is unthrottle:
            add_plan_options(action)
        add_json(action)
        add_cluster_options(action)
        action.set_defaults(run=run)


def run_plan(options: argparse.Namespace) -> int:
    """Show a plan; returns the exit code."""
    from kwire.cli.session import run_on_cluster
    from kwire.cli.tables import show, show_json

    async def work(cluster: "Cluster") -> int:
        present = await _present(cluster, options.topics)
        plan = await _planned(cluster, options, present)
        if options.json:
            show_json(_document(plan))
            return 0
        rows = [
            {"topic": one.topic, "partition": one.partition, "now": present[one], "then": replicas}
            for one, replicas in plan.items()
        ]
        columns = ("topic", "partition", "now", "then")
        show(rows, columns, as_json=False, nothing="the brokers share the replicas evenly already")
        return 0

    return run_on_cluster(options, work)


def _document(plan: "Assignment") -> dict[str, Any]:
    """A plan in Kafka's format."""
    return {
        "version": _VERSION,
        "partitions": [
            {"topic": one.topic, "partition": one.partition, "replicas": replicas}
            for one, replicas in plan.items()
        ],
    }


def _read(path: str) -> "Assignment":
    """The plan in a file; CommandError."""
    import json
    from pathlib import Path

    from kwire.cli.session import CommandError
    from kwire.client.leaders import TopicPartition

    try:
        text = sys.stdin.read() if path == "-" else Path(path).read_text(encoding="utf-8")
        rows = json.loads(text)["partitions"]
        return {
            TopicPartition(str(row["topic"]), int(row["partition"])): list(
                map(int, row["replicas"])
            )
            for row in rows
        }
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        text = "write it with kwire reassign plan --json"
        raise CommandError(f"{path} is no plan ({error!r}); {text}") from error


async def _present(
    cluster: "Cluster", topics: "Collection[tuple[str, list[int] | None]]"
) -> "Assignment":
    """The present replicas of partitions, of all topics if none is named."""
    from kwire.cli.positions import is_meant
    from kwire.client.leaders import TopicPartition

    found = await cluster.topics([name for name, _ in topics] or None)
    return {
        one: row.replica_nodes
        for name, topic in sorted(found.items())
        for row in sorted(topic.partitions, key=lambda row: row.partition_index)
        if is_meant(one := TopicPartition(name, row.partition_index), topics)
    }


async def _planned(
    cluster: "Cluster", options: argparse.Namespace, present: "Assignment"
) -> "Assignment":
    """The partitions whose replicas would move, with where they would be; CommandError."""
    from kwire.cli.reassign_plan import planned
    from kwire.cli.session import CommandError

    brokers = {broker.node_id: broker.rack for broker in (await cluster.metadata()).brokers}
    wanted = sorted(brokers) if options.brokers is None else options.brokers
    for node in wanted:
        if node not in brokers:
            raise CommandError(f"there is no broker {node}; kwire cluster brokers shows them")
    racks = {node: brokers[node] for node in wanted}
    try:
        plan = planned(present, racks, options.replication_factor)
    except ValueError as error:
        raise CommandError(str(error)) from error
    return {one: replicas for one, replicas in plan.items() if replicas != present[one]}


def run_run(options: argparse.Namespace) -> int:
    """Move replicas; returns the exit code."""
    from kwire.cli.output import wrong
    from kwire.cli.session import run_on_cluster

    named = options.topics or options.brokers or options.replication_factor
    if bool(options.file) == bool(named):
        return wrong("name a plan with --file, or the topics, --brokers or -r of a new plan")

    async def work(cluster: "Cluster") -> int:
        plan = _read(options.file) if options.file else {}
        present = await _present(cluster, [(one.topic, None) for one in plan] or options.topics)
        plan = plan or await _planned(cluster, options, present)
        steps = [
            Step(str(one), f"move {one} from {_list(present.get(one, []))} to {_list(nodes)}")
            for one, nodes in plan.items()
        ]
        if not steps and not options.json:
            print("nothing has to be moved: the replicas are there already")
            return 0
        return await _carry_out(cluster, options, plan, steps, present)

    return run_on_cluster(options, work)


def _list(nodes: "Collection[int]") -> str:
    return ",".join(map(str, nodes)) or "nowhere"


async def _carry_out(
    cluster: "Cluster",
    options: argparse.Namespace,
    wanted: "Mapping[TopicPartition, list[int] | None]",
    steps: list[Step],
    present: "Assignment | None" = None,
) -> int:
    """Begin or cancel moves, and wait for those that have begun; returns the exit code.

    ``present`` has the replicas of now, for the limits of ``--throttle``. These stay after Ctrl-C
    and after an error, as the moves do.
    """
    from kwire.cli.outcomes import Outcomes
    from kwire.cli.planning import begins, unchanged
    from kwire.client.replicas import move_replicas
    from kwire.client.throttles import remove_throttles, set_throttles

    if not begins(options, steps):
        return unchanged(options, steps)
    moved = {one: nodes for one, nodes in wanted.items() if nodes is not None}
    is_limited = bool(moved and options.throttle)
    if is_limited:
        await set_throttles(cluster, present or {}, moved, options.throttle)
    results = await move_replicas(cluster, wanted) if wanted else {}
    begun = [one for one, error in results.items() if error is None and one in moved]
    if begun and not options.no_wait:
        await _wait(cluster, begun)
    if is_limited and not (begun and options.no_wait):
        await remove_throttles(cluster, {one.topic for one in moved})
    outcomes = Outcomes(options)
    texts = {step.name: step.text for step in steps}
    for one, error in results.items():
        if error is None:
            is_begun = wanted[one] is not None and options.no_wait
            outcomes.done(str(one), f"{'begun' if is_begun else 'done'}: {texts[str(one)]}")
        else:
            outcomes.failed(str(one), error)
    return outcomes.finish()


async def _wait(cluster: "Cluster", partitions: "Collection[TopicPartition]") -> None:
    """Wait until partitions are moved, and show how many are."""
    import trio

    from kwire.cli.progress import Bar
    from kwire.client.replicas import list_moves

    with Bar("partitions moved", len(partitions)) as bar:
        while left := await list_moves(cluster, partitions):
            bar.show(len(partitions) - len(left))
            await trio.sleep(_LOOK_AGAIN_S)
        bar.show(len(partitions))


def run_status(options: argparse.Namespace) -> int:
    """Show the moves that go on; returns the exit code."""
    from kwire.cli.positions import is_meant
    from kwire.cli.session import run_on_cluster
    from kwire.cli.tables import show
    from kwire.client.replicas import list_moves

    async def work(cluster: "Cluster") -> int:
        rows = [
            {
                "topic": one.topic,
                "partition": one.partition,
                "replicas": move.replicas,
                "adding": move.adding,
                "removing": move.removing,
            }
            for one, move in (await list_moves(cluster)).items()
            if is_meant(one, options.topics)
        ]
        columns = ("topic", "partition", "replicas", "adding", "removing")
        show(rows, columns, as_json=options.json, nothing="no replica is being moved")
        return 0

    return run_on_cluster(options, work)


def run_cancel(options: argparse.Namespace) -> int:
    """Cancel moves; returns the exit code."""
    from kwire.cli.output import fail
    from kwire.cli.positions import is_meant
    from kwire.cli.session import run_on_cluster
    from kwire.client.replicas import list_moves

    async def work(cluster: "Cluster") -> int:
        moves = await list_moves(cluster)
        meant = {one: move for one, move in moves.items() if is_meant(one, options.topics)}
        if not meant:
            return fail("no such replica is being moved; kwire reassign status shows the moves")
        steps = [
            Step(str(one), f"cancel the move of {one} to {_list(move.adding)}")
            for one, move in meant.items()
        ]
        wanted: dict[TopicPartition, list[int] | None] = dict.fromkeys(meant)
        return await _carry_out(cluster, options, wanted, steps)

    return run_on_cluster(options, work)


def run_unthrottle(options: argparse.Namespace) -> int:
    """Take away the limits for copying; returns the exit code."""
    from kwire.cli.outcomes import Outcomes
    from kwire.cli.planning import begins, unchanged
    from kwire.cli.session import run_on_cluster
    from kwire.client.throttles import remove_throttles

    async def work(cluster: "Cluster") -> int:
        topics = {one.topic for one in await _present(cluster, options.topics)}
        step = Step("throttles", f"take the limits from {len(topics)} topics and all brokers")
        if not begins(options, [step]):
            return unchanged(options, [step])
        await remove_throttles(cluster, topics)
        outcomes = Outcomes(options)
        outcomes.done(step.name, f"done: {step.text}")
        return outcomes.finish()

    return run_on_cluster(options, work)
