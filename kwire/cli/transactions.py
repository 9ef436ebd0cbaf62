"""``kwire transactions``: list and describe transactions, and abort open ones."""

import argparse
from typing import TYPE_CHECKING

from kwire.cli.options import add_cluster_options, add_json, count, seconds

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster

STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "PrepareEpochFence",
)


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command, its actions and their options."""
    transactions = commands.add_parser("transactions")
    actions = transactions.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list the transactional ids of all coordinators")
    listing.add_argument(
        "--state",
        metavar="STATE",
        choices=STATES,
        action="append",
        default=[],
        help=f"only those in a state: {', '.join(STATES)}; may be repeated",
    )
    listing.add_argument(
        "--older-than", metavar="TIME", type=seconds, help="only those open for longer: 5m, 1h"
    )
    describe = actions.add_parser("describe", help="show transactional ids with their partitions")
    describe.add_argument("ids", metavar="ID", nargs="+")
    abort = actions.add_parser(
        "abort",
        help="abort an open transaction",
        description="Aborts the open transaction of a transactional id and fences its producer, "
        "which has to start again. With --topic, --partition and --start-offset: writes the abort "
        "marker of a hanging transaction, one that its coordinator no longer knows.",
    )
    abort.add_argument("id", metavar="ID", nargs="?", help="the transactional id")
    abort.add_argument("--topic", metavar="TOPIC", help="of a hanging transaction")
    abort.add_argument("--partition", metavar="N", type=count, help="of a hanging transaction")
    abort.add_argument(
        "--start-offset", metavar="N", type=count, help="the first offset of the transaction"
    )
    hanging = actions.add_parser(
        "open", help="list the open transactions that the leaders of a topic's partitions know"
    )
    hanging.add_argument("topics", metavar="TOPIC", nargs="+")
    for action, run in (
        (listing, run_list),
        (describe, run_describe),
        (hanging, run_open),
        (abort, run_abort),
    ):
        add_json(action)
        add_cluster_options(action)
        action.set_defaults(run=run)


def run_list(options: argparse.Namespace) -> int:
    """List transactions; returns the exit code."""
    from kwire.cli.session import run_on_cluster
    from kwire.cli.tables import show
    from kwire.client.transactions import list_transactions

    async def work(cluster: "Cluster") -> int:
        older_than_ms = -1 if options.older_than is None else int(options.older_than * 1000)
        found = await list_transactions(cluster, options.state, older_than_ms)
        rows = [
            {
                "id": state.transactional_id,
                "coordinator": node,
                "producer_id": state.producer_id,
                "state": state.transaction_state,
            }
            for node, state in found
        ]
        columns = {"id": "TRANSACTIONAL ID", "coordinator": "COORDINATOR"}
        columns |= {"producer_id": "PRODUCER ID", "state": "STATE"}
        show(rows, columns, as_json=options.json, nothing="no transactions")
        return 0

    return run_on_cluster(options, work)


def run_describe(options: argparse.Namespace) -> int:
    """Describe transactions; returns the exit code."""
    from kwire.cli.session import run_on_cluster
    from kwire.cli.tables import show
    from kwire.client.transactions import describe_transaction

    async def work(cluster: "Cluster") -> int:
        import time

        now_ms = int(time.time() * 1000)
        rows = []
        for transactional_id in options.ids:
            node, found = await describe_transaction(cluster, transactional_id)
            started_ms = found.transaction_start_time_ms
            rows.append(
                {
                    "id": transactional_id,
                    "coordinator": node,
                    "state": found.transaction_state,
                    "producer_id": found.producer_id,
                    "epoch": found.producer_epoch,
                    "timeout_ms": found.transaction_timeout_ms,
                    "started_ms": started_ms if started_ms >= 0 else None,
                    "age_s": (now_ms - started_ms) // 1000 if started_ms >= 0 else None,
                    "partitions": [
                        f"{topic.topic}-{index}"
                        for topic in found.topics
                        for index in topic.partitions
                    ],
                }
            )
        columns = {"id": "TRANSACTIONAL ID", "coordinator": "COORDINATOR", "state": "STATE"}
        columns |= {"producer_id": "PRODUCER ID", "epoch": "EPOCH", "timeout_ms": "TIMEOUT MS"}
        columns |= {"age_s": "AGE S", "partitions": "PARTITIONS"}
        show(rows, columns, as_json=options.json)
        return 0

    return run_on_cluster(options, work)


def run_open(options: argparse.Namespace) -> int:
    """List open transactions of partitions; returns the exit code."""
    from kwire.cli.positions import partitions_of_topics
    from kwire.cli.session import run_on_cluster
    from kwire.cli.tables import show
    from kwire.client.transactions import open_transactions

    async def work(cluster: "Cluster") -> int:
        partitions = await partitions_of_topics(cluster, options.topics)
        rows = [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "start_offset": producer.current_txn_start_offset,
                "producer_id": producer.producer_id,
                "epoch": producer.producer_epoch,
                "last_timestamp": producer.last_timestamp,
            }
            for partition, producer in await open_transactions(cluster, partitions)
        ]
        columns = {"topic": "TOPIC", "partition": "PARTITION", "start_offset": "START OFFSET"}
        columns |= {"producer_id": "PRODUCER ID", "epoch": "EPOCH"}
        show(rows, columns, as_json=options.json, nothing="no open transactions")
        return 0

    return run_on_cluster(options, work)


def run_abort(options: argparse.Namespace) -> int:
    """Abort a transaction; returns the exit code."""
    from kwire.cli.output import wrong
    from kwire.cli.session import run_on_cluster

    place = (options.topic, options.partition, options.start_offset)
    given = sum(part is not None for part in place)
    if (options.id is None) == (given == 0) or given not in (0, len(place)):
        return wrong("name a transactional ID, or all of --topic, --partition and --start-offset")

    async def work(cluster: "Cluster") -> int:
        if options.id is None:
            return await _abort_hanging(cluster, options)
        from kwire.cli.outcomes import Outcomes
        from kwire.cli.session import CommandError
        from kwire.client.transactions import describe_transaction, fence

        _, found = await describe_transaction(cluster, options.id)
        if found.transaction_state != "Ongoing":
            raise CommandError(
                f"{options.id} has no open transaction: its state is {found.transaction_state}"
            )
        await fence(cluster, options.id)
        outcomes = Outcomes(options)
        text = f"aborted the transaction of {options.id}; its producer is fenced"
        outcomes.done(options.id, text)
        return outcomes.finish()

    return run_on_cluster(options, work)


async def _abort_hanging(cluster: "Cluster", options: argparse.Namespace) -> int:
    from kwire.cli.outcomes import Outcomes
    from kwire.cli.session import CommandError
    from kwire.client.leaders import TopicPartition
    from kwire.client.transactions import abort_hanging, open_transactions

    partition = TopicPartition(options.topic, options.partition)
    for one in await open_transactions(cluster, [partition]):
        if one.producer.current_txn_start_offset == options.start_offset:
            await abort_hanging(cluster, one)
            outcomes = Outcomes(options)
            text = f"aborted the transaction of producer {one.producer.producer_id} in {partition}"
            outcomes.done(str(partition), text)
            return outcomes.finish()
    raise CommandError(
        f"{partition} has no open transaction that starts at offset {options.start_offset}; "
        f"kwire transactions open {options.topic} shows them"
    )
