"""``kwire quotas``: how much users, client ids and addresses may use; list, set, unset."""

import argparse
from typing import TYPE_CHECKING

from kwire.cli.options import add_cluster_options, add_json, name_value
from kwire.cli.planning import Step, add_plan_options

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kwire.client.cluster import Cluster

KEYS = {
    "producer_byte_rate": "bytes a second that are written",
    "consumer_byte_rate": "bytes a second that are read",
    "request_percentage": "percent of a thread's time",
    "controller_mutation_rate": "topics and partitions a second that are created or deleted",
    "connection_creation_rate": "connections a second, of an address",
}
_KINDS = ("user", "client-id", "ip")
_ENTITIES = (
    ("--user", "of a user"),
    ("--client-id", "of a client id, or of a user's client id"),
    ("--ip", "of an address"),
)


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command, its actions and their options."""
    quotas = commands.add_parser("quotas")
    actions = quotas.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list quotas")
    keys = "; ".join(f"{key}: {text}" for key, text in KEYS.items())
    setting = actions.add_parser(
        "set", help="set quotas", description=f"Sets quotas of one entity. {keys}."
    )
    unsetting = actions.add_parser("unset", help="remove quotas")
    setting.add_argument(
        "values", metavar="KEY=NUMBER", nargs="+", type=name_value, help="one of the keys above"
    )
    unsetting.add_argument(
        "keys", metavar="KEY", nargs="+", choices=tuple(KEYS), help=f"one of {', '.join(KEYS)}"
    )
    for action, run in ((listing, run_list), (setting, run_set), (unsetting, run_unset)):
        for option, text in _ENTITIES:
            action.add_argument(option, metavar="NAME", help=text)
        for option, text in _ENTITIES:
            name = option.removeprefix("--")
            action.add_argument(
                f"--every-{name}", action="store_true", help=f"{text} without one of its own"
            )
        if action is not listing:
            add_plan_options(action)
        add_json(action)
        add_cluster_options(action)
        action.set_defaults(run=run)


def _entity(options: argparse.Namespace) -> dict[str, str | None]:
    """The entity that the options name, by type; None stands for every other name."""
    found: dict[str, str | None] = {}
    for kind in _KINDS:
        name = kind.replace("-", "_")
        if getattr(options, f"every_{name}"):
            found[kind] = None
        elif getattr(options, name) is not None:
            found[kind] = getattr(options, name)
    return found


def _shown(entity: "Mapping[str, str | None]") -> str:
    return ", ".join(
        f"every {kind}" if name is None else f"{kind} {name}" for kind, name in entity.items()
    )


def _number(value: float) -> float:
    """A value without a fraction of zero."""
    return int(value) if value.is_integer() else value


def run_list(options: argparse.Namespace) -> int:
    """List quotas; returns the exit code."""
    from kwire.cli.session import run_on_cluster
    from kwire.cli.tables import show
    from kwire.client.quotas import describe_quotas

    async def work(cluster: "Cluster") -> int:
        rows = [
            {
                "of": _shown(dict(entity)),
                "entity": dict(entity),
                "key": key,
                "value": _number(value),
            }
            for entity, values in (await describe_quotas(cluster, _entity(options))).items()
            for key, value in values.items()
        ]
        columns = {"of": "OF", "key": "KEY", "value": "VALUE"}
        show(rows, columns, as_json=options.json, nothing="no quotas")
        return 0

    return run_on_cluster(options, work)


def run_set(options: argparse.Namespace) -> int:
    """Set quotas; returns the exit code."""
    from kwire.cli.output import wrong
    from kwire.cli.suggestions import did_you_mean

    values: dict[str, float | None] = {}
    for key, text in options.values:
        if key not in KEYS:
            guess = did_you_mean(key, KEYS) or f": choose from {', '.join(KEYS)}"
            return wrong(f"there is no quota {key}{guess}")
        try:
            values[key] = float(text)
        except ValueError:
            return wrong(f"{key}={text}: write a number")
    return _change(options, values)


def run_unset(options: argparse.Namespace) -> int:
    """Remove quotas; returns the exit code."""
    return _change(options, dict.fromkeys(options.keys))


def _change(options: argparse.Namespace, values: "Mapping[str, float | None]") -> int:
    from kwire.cli.outcomes import Outcomes
    from kwire.cli.output import wrong
    from kwire.cli.planning import begins, unchanged
    from kwire.cli.session import run_on_cluster
    from kwire.client.quotas import alter_quotas

    entity = _entity(options)
    if not entity:
        return wrong("name whose quota it is: --user, --client-id, --ip, or --every-user, …")
    of = _shown(entity)
    told = [
        f"{key} of {of}" + ("" if at is None else f" to {at:.15g}") for key, at in values.items()
    ]
    verb, done = ("unset", "unset") if None in values.values() else ("set", "set")
    steps = [Step(of, f"{verb} {text}") for text in told]

    async def work(cluster: "Cluster") -> int:
        if not begins(options, steps):
            await alter_quotas(cluster, entity, values, only_checks=True)
            return unchanged(options, steps)
        await alter_quotas(cluster, entity, values)
        outcomes = Outcomes(options)
        for text in told:
            outcomes.done(of, f"{done} {text}")
        return outcomes.finish()

    return run_on_cluster(options, work)
