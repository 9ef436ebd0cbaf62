"""``kwire topics``: list, describe, create, delete and alter topics, and add partitions."""

import argparse
from typing import TYPE_CHECKING, Any

from kwire.cli.options import add_cluster_options, add_json, name_value, positive

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.protocol.messages.metadata import MetadataResponseTopic

_NO_TOPICS = "no topics yet: kwire topics create NAME makes one"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command, its actions and their options."""
    topics = commands.add_parser("topics")
    actions = topics.add_subparsers(dest="action", required=True, metavar="ACTION")
    _add_reading(actions)
    create = actions.add_parser("create", help="create topics")
    create.add_argument("names", metavar="TOPIC", nargs="+")
    create.add_argument(
        "-p", "--partitions", metavar="N", type=positive, help="default: the broker's"
    )
    create.add_argument(
        "-r", "--replication-factor", metavar="N", type=positive, help="default: the broker's"
    )
    _add_config(create, "--config", "a config of the topic; may be repeated")
    create.add_argument("--if-not-exists", action="store_true", help="a topic may exist already")
    create.add_argument("--dry-run", action="store_true", help="only check whether it is possible")
    delete = actions.add_parser("delete", help="delete topics with all their records")
    delete.add_argument("names", metavar="TOPIC", nargs="+")
    delete.add_argument("--if-exists", action="store_true", help="a topic may be missing")
    alter = actions.add_parser("alter", help="change configs of a topic")
    alter.add_argument("name", metavar="TOPIC")
    _add_config(alter, "--set", "a config to set; may be repeated")
    alter.add_argument(
        "--unset", metavar="NAME", action="append", default=[], help="a config to set back"
    )
    alter.add_argument("--dry-run", action="store_true", help="only check whether it is possible")
    adding = actions.add_parser(
        "add-partitions",
        help="give a topic more partitions",
        description="Gives a topic more partitions. Keys may belong to other partitions "
        "afterwards: records with the same key are in order only within a partition.",
    )
    adding.add_argument("name", metavar="TOPIC")
    number = adding.add_mutually_exclusive_group(required=True)
    number.add_argument("--to", metavar="N", type=positive, help="how many in all")
    number.add_argument("--by", metavar="N", type=positive, help="how many more")
    adding.add_argument("--dry-run", action="store_true", help="only check whether it is possible")
    for action, run in (
        (create, run_create),
        (delete, run_delete),
        (alter, run_alter),
        (adding, run_add_partitions),
    ):
        add_json(action)
        add_cluster_options(action)
        action.set_defaults(run=run)


def _add_reading(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    listing = actions.add_parser("list", help="list topics")
    listing.add_argument("--internal", action="store_true", help="also Kafka's own topics")
    describe = actions.add_parser("describe", help="show partitions, offsets and configs of topics")
    describe.add_argument("names", metavar="TOPIC", nargs="*", help="default: all topics")
    describe.add_argument(
        "--internal", action="store_true", help="also Kafka's own topics, if no topic is named"
    )
    for action, run in ((listing, run_list), (describe, run_describe)):
        add_json(action)
        add_cluster_options(action)
        action.set_defaults(run=run)


def _add_config(parser: argparse.ArgumentParser, option: str, text: str) -> None:
    parser.add_argument(
        option,
        dest="configs",
        metavar="NAME=VALUE",
        type=name_value,
        action="append",
        default=[],
        help=text,
    )


def run_list(options: argparse.Namespace) -> int:
    """List topics; returns the exit code."""
    from kwire.cli.session import run_on_cluster
    from kwire.cli.tables import show

    async def work(cluster: "Cluster") -> int:
        found = await cluster.metadata(None)
        rows = [
            {
                "name": topic.name,
                "partitions": len(topic.partitions),
                "replicas": max((len(row.replica_nodes) for row in topic.partitions), default=0),
                "internal": topic.is_internal,
            }
            for topic in sorted(found.topics, key=lambda topic: topic.name or "")
            if options.internal or not topic.is_internal
        ]
        columns = {"name": "TOPIC", "partitions": "PARTITIONS", "replicas": "REPLICAS"}
        show(rows, columns, as_json=options.json, nothing=_NO_TOPICS)
        return 0

    return run_on_cluster(options, work)


def run_describe(options: argparse.Namespace) -> int:
    """Describe topics; returns the exit code."""
    from kwire.cli.session import run_on_cluster
    from kwire.cli.tables import show, show_json

    async def work(cluster: "Cluster") -> int:
        found = await cluster.topics(options.names or None)
        names = options.names or [
            name for name in sorted(found) if options.internal or not found[name].is_internal
        ]
        described = [await _describe(cluster, found[name]) for name in names]
        if options.json:
            show_json(described)
            return 0
        if not described:
            show([], {}, as_json=False, nothing=_NO_TOPICS)
        for place, topic in enumerate(described):
            if place:
                print()
            _show_topic(topic)
        return 0

    return run_on_cluster(options, work)


async def _describe(cluster: "Cluster", topic: "MetadataResponseTopic") -> dict[str, Any]:
    from kwire.client.configs import DEFAULT_SOURCE, Resource, ResourceType, describe_configs
    from kwire.client.leaders import TopicPartition
    from kwire.client.offsets import EARLIEST, LATEST, list_offsets
    from kwire.errors import KafkaError
    from kwire.protocol.types import uuid_to_str

    name = topic.name or ""
    rows = sorted(topic.partitions, key=lambda row: row.partition_index)
    led = [TopicPartition(name, row.partition_index) for row in rows if row.leader_id >= 0]
    starts = await list_offsets(cluster, dict.fromkeys(led, EARLIEST))
    ends = await list_offsets(cluster, dict.fromkeys(led, LATEST))

    def number(found: dict[TopicPartition, int | KafkaError], index: int) -> int | None:
        value = found.get(TopicPartition(name, index))
        return value if isinstance(value, int) else None

    configs = await describe_configs(cluster, Resource(ResourceType.TOPIC, name))
    partitions = []
    for row in rows:
        start, end = number(starts, row.partition_index), number(ends, row.partition_index)
        partitions.append(
            {
                "partition": row.partition_index,
                "leader": row.leader_id if row.leader_id >= 0 else None,
                "epoch": row.leader_epoch,
                "replicas": row.replica_nodes,
                "isr": row.isr_nodes,
                "offline": row.offline_replicas,
                "start": start,
                "end": end,
            }
        )
    return {
        "name": name,
        "id": uuid_to_str(topic.topic_id),
        "internal": topic.is_internal,
        "partitions": partitions,
        "configs": {row.name: row.value for row in configs if row.config_source != DEFAULT_SOURCE},
    }


def _show_topic(topic: dict[str, Any]) -> None:
    from kwire.cli.tables import show, show_fields

    fields = {"topic": topic["name"], "id": topic["id"], "partitions": len(topic["partitions"])}
    if topic["internal"]:
        fields["internal"] = True
    if topic["configs"]:
        fields["configs"] = " ".join(f"{key}={value}" for key, value in topic["configs"].items())
    show_fields(fields)
    titles = ("partition", "leader", "epoch", "replicas", "isr", "offline", "start", "end")
    shown = [key for key in titles if key != "offline" or any(r[key] for r in topic["partitions"])]
    show(topic["partitions"], shown, as_json=False)


def run_create(options: argparse.Namespace) -> int:
    """Create topics; returns the exit code."""
    from kwire.cli.outcomes import Outcomes
    from kwire.cli.session import run_on_cluster
    from kwire.client.topics import DEFAULT, create_topics
    from kwire.errors import ErrorCode, KafkaError

    async def work(cluster: "Cluster") -> int:
        results = await create_topics(
            cluster,
            options.names,
            partitions=options.partitions or DEFAULT,
            replication_factor=options.replication_factor or DEFAULT,
            configs=dict(options.configs),
            only_checks=options.dry_run,
        )
        outcomes = Outcomes(options)
        for name in options.names:
            result = results[name]
            if not isinstance(result, KafkaError):
                count = result.num_partitions
                shape = f" ({count} partition{'s' * (count != 1)})" if count > 0 else ""
                verb = "would create" if options.dry_run else "created"
                outcomes.done(name, f"{verb} {name}{shape}")
            elif options.if_not_exists and result.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                outcomes.done(name, f"{name} exists already")
            else:
                outcomes.failed(name, result)
        return outcomes.finish()

    return run_on_cluster(options, work)


def run_delete(options: argparse.Namespace) -> int:
    """Delete topics; returns the exit code."""
    from kwire.cli.outcomes import Outcomes
    from kwire.cli.session import no_topic, run_on_cluster
    from kwire.client.topics import delete_topics
    from kwire.errors import ErrorCode, KafkaError

    async def work(cluster: "Cluster") -> int:
        outcomes = Outcomes(options)
        for name, error in (await delete_topics(cluster, options.names)).items():
            if error is None:
                outcomes.done(name, f"deleted {name}")
            elif error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                outcomes.failed(name, KafkaError(error.code, f"topic {name}"))
            elif options.if_exists:
                outcomes.done(name, f"{name} does not exist")
            else:
                outcomes.failed(name, error, str(await no_topic(cluster, name)))
        return outcomes.finish()

    return run_on_cluster(options, work)


def run_alter(options: argparse.Namespace) -> int:
    """Change configs of a topic; returns the exit code."""
    from kwire.cli.outcomes import Outcomes
    from kwire.cli.output import wrong
    from kwire.cli.session import run_on_cluster
    from kwire.client.configs import Change, Resource, ResourceType, alter_configs

    if not options.configs and not options.unset:
        return wrong("nothing to alter: give --set NAME=VALUE or --unset NAME")

    async def work(cluster: "Cluster") -> int:
        resource = Resource(ResourceType.TOPIC, options.name)
        change = Change(dict(options.configs), options.unset)
        await alter_configs(cluster, resource, change, only_checks=options.dry_run)
        outcomes = Outcomes(options)
        verb = "would alter" if options.dry_run else "altered"
        outcomes.done(options.name, f"{verb} {options.name}")
        return outcomes.finish()

    return run_on_cluster(options, work)


def run_add_partitions(options: argparse.Namespace) -> int:
    """Add partitions to a topic; returns the exit code."""
    from kwire.cli.outcomes import Outcomes
    from kwire.cli.session import run_on_cluster
    from kwire.client.topics import create_partitions

    async def work(cluster: "Cluster") -> int:
        before = len((await cluster.topics([options.name]))[options.name].partitions)
        count: int = options.to or before + options.by
        await create_partitions(cluster, options.name, count, only_checks=options.dry_run)
        verb = "would have" if options.dry_run else "has"
        outcomes = Outcomes(options)
        text = f"{options.name} {verb} {count} partitions (before: {before})"
        outcomes.done(options.name, text)
        return outcomes.finish()

    return run_on_cluster(options, work)
