"""``kwire tokens``: delegation tokens; list, create, renew, expire.

A token is its id and its HMAC, which is a secret: whoever has both can log in. It is printed when
the token is created, later only with ``--hmac``.
"""

import argparse
from functools import partial
from typing import TYPE_CHECKING, Any

from kwire.cli.acl_words import principal
from kwire.cli.options import add_cluster_options, add_json, seconds
from kwire.cli.planning import Step, add_plan_options

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.client.tokens import Token


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command, its actions and their options."""
    tokens = commands.add_parser("tokens")
    actions = tokens.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list the tokens that the user may see")
    listing.add_argument("owners", metavar="OWNER", type=principal, nargs="*", help="default: all")
    listing.add_argument("--hmac", action="store_true", help="also the secrets of the tokens")
    creating = actions.add_parser("create", help="create a token and print its secret")
    creating.add_argument("--owner", metavar="USER", type=principal, help="default: who asks")
    creating.add_argument(
        "--renewer",
        metavar="USER",
        type=principal,
        action="append",
        default=[],
        help="who may renew it beside its owner; may be repeated",
    )
    creating.add_argument(
        "--lifetime", metavar="TIME", type=seconds, help="7d, 12h; default: as long as is allowed"
    )
    renewing = actions.add_parser("renew", help="let a token live on")
    renewing.add_argument(
        "--by", metavar="TIME", type=seconds, help="1d; default: as long as is allowed"
    )
    expiring = actions.add_parser("expire", help="let a token expire")
    expiring.add_argument("--after", metavar="TIME", type=seconds, help="1h; default: at once")
    for action in (renewing, expiring):
        action.add_argument("id", metavar="ID", help="the id of the token")
    for action, run in (
        (listing, run_list),
        (creating, run_create),
        (renewing, partial(run_period, renews=True)),
        (expiring, partial(run_period, renews=False)),
    ):
        if action is not listing:
            add_plan_options(action, asks=action is expiring)
        add_json(action)
        add_cluster_options(action)
        action.set_defaults(run=run)


def _row(token: "Token", *, with_hmac: bool) -> dict[str, Any]:
    import base64

    row = {
        "id": token.id,
        "owner": token.owner,
        "renewers": token.renewers,
        "issued": _time(token.issued_ms),
        "expires": _time(token.expires_ms),
        "at_the_latest": _time(token.longest_ms),
    }
    return row | ({"hmac": base64.b64encode(token.hmac).decode()} if with_hmac else {})


def _time(at_ms: int) -> str:
    from datetime import datetime

    return datetime.fromtimestamp(at_ms / 1000).astimezone().isoformat(timespec="seconds")


def run_list(options: argparse.Namespace) -> int:
    """List tokens; returns the exit code."""
    from kwire.cli.session import run_on_cluster
    from kwire.cli.tables import show
    from kwire.client.tokens import describe_tokens

    async def work(cluster: "Cluster") -> int:
        found = await describe_tokens(cluster, options.owners or None)
        rows = [_row(token, with_hmac=options.hmac) for token in found]
        keys = ("id", "owner", "renewers", "issued", "expires", "at_the_latest")
        columns = {key: key.upper().replace("_", " ") for key in keys}
        columns |= {"hmac": "HMAC"} if options.hmac else {}
        show(rows, columns, as_json=options.json, nothing="no tokens")
        return 0

    return run_on_cluster(options, work)


def run_create(options: argparse.Namespace) -> int:
    """Create a token; returns the exit code."""
    from kwire.cli.planning import begins, unchanged
    from kwire.cli.process_tuning import leave_no_dump
    from kwire.cli.session import run_on_cluster
    from kwire.cli.tables import show_fields, show_json
    from kwire.client.tokens import NOW, create_token

    leave_no_dump()
    of = options.owner or "who asks"
    steps = [Step(of, f"create a token of {of}")]

    async def work(cluster: "Cluster") -> int:
        if not begins(options, steps):
            return unchanged(options, steps)
        lifetime_ms = NOW if options.lifetime is None else int(options.lifetime * 1000)
        token = await create_token(cluster, options.owner, options.renewer, lifetime_ms)
        row = _row(token, with_hmac=True)
        if options.json:
            show_json(row)
        else:
            show_fields({key.replace("_", " "): value for key, value in row.items()})
        return 0

    return run_on_cluster(options, work)


def run_period(options: argparse.Namespace, *, renews: bool) -> int:
    """Renew a token, or let it expire; returns the exit code."""
    from kwire.cli.outcomes import Outcomes
    from kwire.cli.planning import begins, unchanged
    from kwire.cli.session import CommandError, run_on_cluster
    from kwire.client.tokens import NOW, describe_tokens, expire_token, renew_token

    given = options.by if renews else options.after
    period_ms = NOW if given is None else int(given * 1000)
    verb = "renew" if renews else "expire"

    async def work(cluster: "Cluster") -> int:
        found = [one for one in await describe_tokens(cluster) if one.id == options.id]
        if not found:
            raise CommandError(f"there is no token {options.id}; kwire tokens list shows them")
        steps = [Step(options.id, f"{verb} the token {options.id} of {found[0].owner}")]
        if not begins(options, steps):
            return unchanged(options, steps)
        alter = renew_token if renews else expire_token
        at_ms = await alter(cluster, found[0].hmac, period_ms)
        outcomes = Outcomes(options)
        outcomes.done(options.id, f"the token {options.id} expires at {_time(at_ms)}")
        return outcomes.finish()

    return run_on_cluster(options, work)
