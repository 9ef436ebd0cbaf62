"""``kwire elections``: partitions that another replica than the preferred one leads; list, run."""

import argparse
from typing import TYPE_CHECKING

from kwire.cli.options import add_cluster_options, add_json, topic_partitions
from kwire.cli.planning import Step, add_plan_options

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.client.leaders import TopicPartition
    from kwire.protocol.messages.metadata import MetadataResponsePartition


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command, its actions and their options."""
    elections = commands.add_parser("elections")
    actions = elections.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser(
        "list", help="list partitions without a leader, or whose leader isn't the preferred one"
    )
    running = actions.add_parser(
        "run",
        help="elect the preferred leaders of partitions",
        description="Elects the first replica of each partition where another one leads and the "
        "first is in sync. --unclean elects any replica that is there, for partitions without a "
        "leader: the records that it lacks are lost.",
    )
    for action in (listing, running):
        action.add_argument(
            "topics", metavar="TOPIC[:N]", type=topic_partitions, nargs="*", help="default: all"
        )
    running.add_argument(
        "--unclean", action="store_true", help="elect replicas that lack records, which are lost"
    )
    for action, run in ((listing, run_list), (running, run_run)):
        if action is running:
            add_plan_options(action, asks=True)
        add_json(action)
        add_cluster_options(action)
        action.set_defaults(run=run)


async def _partitions(
    cluster: "Cluster", options: argparse.Namespace
) -> "dict[TopicPartition, MetadataResponsePartition]":
    """The partitions that the options name."""
    from kwire.cli.positions import is_meant
    from kwire.client.leaders import TopicPartition

    found = await cluster.topics([name for name, _ in options.topics] or None)
    return {
        one: row
        for name, topic in sorted(found.items())
        for row in sorted(topic.partitions, key=lambda row: row.partition_index)
        if is_meant(one := TopicPartition(name, row.partition_index), options.topics)
    }


def _is_led_by_another(row: "MetadataResponsePartition") -> bool:
    """Whether the preferred replica doesn't lead a partition."""
    return bool(row.replica_nodes) and row.leader_id != row.replica_nodes[0]


def run_list(options: argparse.Namespace) -> int:
    """List such partitions; returns the exit code."""
    from kwire.cli.session import run_on_cluster
    from kwire.cli.tables import show

    async def work(cluster: "Cluster") -> int:
        rows = [
            {
                "topic": one.topic,
                "partition": one.partition,
                "leader": row.leader_id if row.leader_id >= 0 else None,
                "preferred": row.replica_nodes[0],
                "isr": row.isr_nodes,
                "replicas": row.replica_nodes,
            }
            for one, row in (await _partitions(cluster, options)).items()
            if _is_led_by_another(row)
        ]
        columns = ("topic", "partition", "leader", "preferred", "isr", "replicas")
        nothing = "the preferred replicas lead all partitions"
        show(rows, columns, as_json=options.json, nothing=nothing)
        return 0

    return run_on_cluster(options, work)


def run_run(options: argparse.Namespace) -> int:
    """Elect leaders; returns the exit code."""
    from kwire.cli.outcomes import Outcomes
    from kwire.cli.planning import begins, unchanged
    from kwire.cli.session import run_on_cluster
    from kwire.client.replicas import elect_leaders
    from kwire.errors import ErrorCode

    async def work(cluster: "Cluster") -> int:
        found = await _partitions(cluster, options)
        meant = {
            one: row
            for one, row in found.items()
            if (row.leader_id < 0 if options.unclean else _is_led_by_another(row))
        }
        steps = [
            Step(
                str(one),
                f"elect a replica of {one} that may lack records"
                if options.unclean
                else f"elect {row.replica_nodes[0]} as the leader of {one}",
            )
            for one, row in meant.items()
        ]
        if not begins(options, steps):
            return unchanged(options, steps)
        results = await elect_leaders(cluster, meant, unclean=options.unclean) if meant else {}
        outcomes = Outcomes(options)
        now = await _partitions(cluster, options)
        for one, error in results.items():
            if error is None or error.code is ErrorCode.ELECTION_NOT_NEEDED:
                outcomes.done(str(one), f"{one} is led by {now[one].leader_id}")
            else:
                outcomes.failed(str(one), error)
        if not meant and not options.json:
            print("no election is needed")
        return outcomes.finish()

    return run_on_cluster(options, work)
