"""``kwire cluster``: the brokers, the controller and the features of a cluster."""

import argparse
from typing import TYPE_CHECKING, Any

from kwire.cli.options import add_cluster_options, add_json

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command, its actions and their options."""
    cluster = commands.add_parser("cluster")
    actions = cluster.add_subparsers(dest="action", required=True, metavar="ACTION")
    for name, text, run in (
        ("brokers", "list the brokers", run_brokers),
        ("controller", "show the cluster's id and its controller", run_controller),
        ("features", "list the features with their levels", run_features),
    ):
        action = actions.add_parser(name, help=text)
        add_json(action)
        add_cluster_options(action)
        action.set_defaults(run=run)


def run_brokers(options: argparse.Namespace) -> int:
    """List brokers; returns the exit code."""
    from kwire.cli.session import run_on_cluster
    from kwire.cli.tables import show

    async def work(cluster: "Cluster") -> int:
        found = await cluster.metadata(None)
        led: dict[int, int] = {}
        for topic in found.topics:
            for row in topic.partitions:
                led[row.leader_id] = led.get(row.leader_id, 0) + 1
        rows = [
            {
                "id": broker.node_id,
                "host": broker.host,
                "port": broker.port,
                "rack": broker.rack,
                "leads": led.get(broker.node_id, 0),
            }
            for broker in sorted(found.brokers, key=lambda broker: broker.node_id)
        ]
        columns = {"id": "ID", "host": "HOST", "port": "PORT", "rack": "RACK", "leads": "LEADS"}
        show(rows, columns, as_json=options.json)
        return 0

    return run_on_cluster(options, work)


def run_controller(options: argparse.Namespace) -> int:
    """Show the controller; returns the exit code."""
    from kwire.cli.session import run_on_cluster
    from kwire.cli.tables import show_fields, show_json

    async def work(cluster: "Cluster") -> int:
        found = await cluster.metadata()
        fields: dict[str, Any] = {"cluster": found.cluster_id, "controller": found.controller_id}
        fields |= await _quorum(cluster)
        if options.json:
            show_json(fields)
        else:
            show_fields(fields)
        return 0

    return run_on_cluster(options, work)


async def _quorum(cluster: "Cluster") -> dict[str, Any]:
    """The leader of the metadata quorum, if the broker knows one (KRaft)."""
    from kwire.cli.broker_checks import quorum_request
    from kwire.client.errors import NotSupported
    from kwire.protocol.messages.describe_quorum import DescribeQuorumResponse

    try:
        answer = await cluster.ask(quorum_request(), DescribeQuorumResponse)
    except NotSupported:
        return {}
    if answer.error_code or not answer.topics or answer.topics[0].partitions[0].error_code:
        return {}
    found = answer.topics[0].partitions[0]
    return {
        "controller": found.leader_id,
        "epoch": found.leader_epoch,
        "voters": [voter.replica_id for voter in found.current_voters],
        "observers": [observer.replica_id for observer in found.observers],
    }


def run_features(options: argparse.Namespace) -> int:
    """List features; returns the exit code."""
    from kwire.cli.session import run_on_cluster
    from kwire.cli.tables import show

    async def work(cluster: "Cluster") -> int:
        answer = (await (await cluster.any_peer()).served()).answer
        levels = {row.name: row.max_version_level for row in answer.finalized_features}
        rows = [
            {
                "feature": row.name,
                "level": levels.get(row.name),
                "min": row.min_version,
                "max": row.max_version,
            }
            for row in sorted(answer.supported_features, key=lambda row: row.name)
        ]
        columns = {"feature": "FEATURE", "level": "LEVEL", "min": "MIN", "max": "MAX"}
        show(rows, columns, as_json=options.json, nothing="the broker names no features")
        return 0

    return run_on_cluster(options, work)
