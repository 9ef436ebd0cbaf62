"""``kwire configs``: describe configs with the source of each value, set and unset them."""

import argparse
from typing import TYPE_CHECKING, Any

from kwire.cli.options import add_cluster_options, add_json, name_value

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.client.configs import Change, Resource
    from kwire.protocol.messages.describe_configs import DescribeConfigsResourceResult

TYPES = ("topic", "broker", "group", "client-metrics", "logger")
ALL_BROKERS = "default"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command, its actions and their options."""
    configs = commands.add_parser("configs")
    actions = configs.add_subparsers(dest="action", required=True, metavar="ACTION")
    describe = actions.add_parser(
        "describe",
        help="show configs and where their values come from",
        description="Shows the configs of a topic, broker, group, … that differ from the default, "
        "and where the values come from.",
    )
    setting = actions.add_parser("set", help="set configs")
    unsetting = actions.add_parser("unset", help="set configs back to their defaults")
    for action in (describe, setting, unsetting):
        action.add_argument("type", metavar="TYPE", choices=TYPES, help=", ".join(TYPES))
        action.add_argument(
            "name",
            metavar="NAME",
            help=f"of the topic or group, the id of the broker; {ALL_BROKERS} for all brokers",
        )
    describe.add_argument("configs", metavar="CONFIG", nargs="*", help="only these configs")
    describe.add_argument("--all", action="store_true", help="also configs with their default")
    describe.add_argument("--docs", action="store_true", help="also what each config is for")
    setting.add_argument("values", metavar="CONFIG=VALUE", nargs="+", type=name_value)
    unsetting.add_argument("configs", metavar="CONFIG", nargs="+")
    for action in (setting, unsetting):
        action.add_argument("--dry-run", action="store_true", help="only check it")
    for action, run in ((describe, run_describe), (setting, run_set), (unsetting, run_unset)):
        add_json(action)
        add_cluster_options(action)
        action.set_defaults(run=run)


def _resource(options: argparse.Namespace) -> "Resource":
    """The resource that is named; CommandError."""
    from kwire.cli.session import CommandError
    from kwire.client.configs import Resource, ResourceType

    kind = {
        "topic": ResourceType.TOPIC,
        "broker": ResourceType.BROKER,
        "group": ResourceType.GROUP,
        "client-metrics": ResourceType.CLIENT_METRICS,
        "logger": ResourceType.BROKER_LOGGER,
    }[options.type]
    name = options.name
    if kind is ResourceType.BROKER and name == ALL_BROKERS:
        name = ""
    elif kind in (ResourceType.BROKER, ResourceType.BROKER_LOGGER) and not name.isdigit():
        raise CommandError(f"{name} is not the id of a broker; kwire cluster brokers shows the ids")
    return Resource(kind, name)


def run_describe(options: argparse.Namespace) -> int:
    """Describe configs; returns the exit code."""
    from kwire.cli.session import CommandError, run_on_cluster
    from kwire.cli.suggestions import did_you_mean
    from kwire.cli.tables import show
    from kwire.client.configs import DEFAULT_SOURCE, describe_configs

    async def work(cluster: "Cluster") -> int:
        if options.type == "topic":
            await cluster.topics([options.name])
        names = options.configs or None
        found = await describe_configs(cluster, _resource(options), names, with_texts=options.docs)
        for name in options.configs:
            if name not in {config.name for config in found}:
                known = await describe_configs(cluster, _resource(options))
                guess = did_you_mean(name, [config.name for config in known])
                raise CommandError(f"{options.type} {options.name} has no config {name}{guess}")
        rows = [
            _row(config)
            for config in found
            if options.all or names or config.config_source != DEFAULT_SOURCE
        ]
        columns = {"name": "CONFIG", "value": "VALUE", "source": "SOURCE", "beneath": "BENEATH"}
        if not any(row["beneath"] for row in rows):
            del columns["beneath"]
        if options.docs:
            columns["documentation"] = "WHAT IT IS FOR"
        nothing = "every config has its default: --all shows them"
        show(rows, columns, as_json=options.json, nothing=nothing)
        return 0

    return run_on_cluster(options, work)


def _row(config: "DescribeConfigsResourceResult") -> dict[str, Any]:
    """A config, with the values that would apply without the first one."""
    from kwire.client.configs import SOURCES

    def source(number: int) -> str:
        return SOURCES.get(number, str(number))

    beneath = [
        f"{one.name}={one.value} ({source(one.source)})"
        for one in config.synonyms
        if one.source != config.config_source
    ]
    return {
        "name": config.name,
        "value": "(hidden)" if config.is_sensitive else config.value,
        "source": source(config.config_source),
        "read_only": config.read_only,
        "sensitive": config.is_sensitive,
        "beneath": beneath,
        "documentation": config.documentation,
    }


def run_set(options: argparse.Namespace) -> int:
    """Set configs; returns the exit code."""
    from kwire.client.configs import Change

    return _change(options, Change(dict(options.values)))


def run_unset(options: argparse.Namespace) -> int:
    """Set configs back; returns the exit code."""
    from kwire.client.configs import Change

    return _change(options, Change({}, options.configs))


def _change(options: argparse.Namespace, change: "Change") -> int:
    from kwire.cli.outcomes import Outcomes
    from kwire.cli.session import run_on_cluster
    from kwire.client.configs import alter_configs

    async def work(cluster: "Cluster") -> int:
        await alter_configs(cluster, _resource(options), change, only_checks=options.dry_run)
        names = ", ".join([*change.set, *change.unset])
        outcomes = Outcomes(options)
        verb = "would change" if options.dry_run else "changed"
        outcomes.done(options.name, f"{verb} {names} of {options.name}")
        return outcomes.finish()

    return run_on_cluster(options, work)
