"""``kwire users``: the users of SCRAM, their passwords, and who has none any more.

A password comes from a prompt, or is the first line of standard input, so that it is on no command
line. It is salted here: the cluster never gets it.
"""

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING

from kwire.cli.options import add_cluster_options, add_json, positive
from kwire.cli.planning import Step, add_plan_options

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.client.users import Credential

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_DEFAULT_MECHANISM = "SCRAM-SHA-512"
_DEFAULT_ITERATIONS = 8192
_SALT_BYTES = 32


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command, its actions and their options."""
    users = commands.add_parser(
        "users",
        description="Shows and changes the users of SCRAM. A password is asked for, or is the "
        "first line of standard input.",
    )
    actions = users.add_subparsers(dest="action", required=True, metavar="ACTION")
    listing = actions.add_parser("list", help="list users with their mechanisms")
    listing.add_argument("users", metavar="USER", nargs="*", help="default: all users")
    adding = actions.add_parser("add", help="add a user with a password")
    changing = actions.add_parser("password", help="give a user another password")
    removing = actions.add_parser("remove", help="remove users")
    for action in (adding, changing):
        action.add_argument("user", metavar="USER")
        action.add_argument(
            "--mechanism",
            choices=MECHANISMS,
            help=f"default: {_DEFAULT_MECHANISM}, or those that the user has",
        )
        action.add_argument(
            "--iterations",
            metavar="N",
            type=positive,
            default=_DEFAULT_ITERATIONS,
            help=f"how often the password is hashed (default: {_DEFAULT_ITERATIONS})",
        )
    removing.add_argument("users", metavar="USER", nargs="+")
    removing.add_argument("--mechanism", choices=MECHANISMS, help="only this login of the users")
    for action, run in (
        (listing, run_list),
        (adding, partial(run_password, is_new=True)),
        (changing, partial(run_password, is_new=False)),
        (removing, run_remove),
    ):
        if action is not listing:
            add_plan_options(action, asks=action is removing)
        add_json(action)
        add_cluster_options(action)
        action.set_defaults(run=run)


def run_list(options: argparse.Namespace) -> int:
    """List users; returns the exit code."""
    from kwire.cli.session import run_on_cluster
    from kwire.cli.tables import show
    from kwire.client.users import describe_users

    async def work(cluster: "Cluster") -> int:
        found = await describe_users(cluster, options.users or None)
        rows = [
            {"user": one.user, "mechanism": one.mechanism, "iterations": one.iterations}
            for credentials in found.values()
            for one in credentials
        ]
        columns = ("user", "mechanism", "iterations")
        show(rows, columns, as_json=options.json, nothing="no users: kwire users add NAME adds one")
        return 0

    return run_on_cluster(options, work)


def run_password(options: argparse.Namespace, *, is_new: bool) -> int:
    """Add a user, or give one another password; returns the exit code."""
    from kwire.cli.process_tuning import leave_no_dump
    from kwire.cli.session import CommandError, run_on_cluster

    leave_no_dump()

    async def work(cluster: "Cluster") -> int:
        from kwire.client.users import describe_users

        user = options.user
        has = (await describe_users(cluster, [user])).get(user, [])
        if is_new and any(options.mechanism in (None, one.mechanism) for one in has):
            raise CommandError(f"user {user} exists; kwire users password {user} changes it")
        if not is_new and not has:
            names = list(await describe_users(cluster))
            raise _no_user(user, names, f"kwire users add {user} adds it")
        return await _set_password(cluster, options, has, is_new=is_new)

    return run_on_cluster(options, work)


async def _set_password(
    cluster: "Cluster", options: argparse.Namespace, has: "list[Credential]", *, is_new: bool
) -> int:
    """Set the password for the mechanism that is given, or for those that the user has."""
    import secrets

    from kwire.cli.outcomes import Outcomes
    from kwire.cli.planning import begins, unchanged
    from kwire.client.users import Credential, set_password
    from kwire.errors import KafkaError

    names = [one.mechanism for one in has] or [_DEFAULT_MECHANISM]
    wanted = [
        Credential(options.user, name, options.iterations)
        for name in ([options.mechanism] if options.mechanism else names)
    ]
    verb = "add user" if is_new else "change the password of"
    steps = [Step(one.user, f"{verb} {one.user} ({one.mechanism})") for one in wanted]
    if not begins(options, steps):
        return unchanged(options, steps)
    password = read_password(options.user)
    outcomes = Outcomes(options)
    for one in wanted:
        try:
            await set_password(cluster, one, password, secrets.token_bytes(_SALT_BYTES))
        except KafkaError as error:
            outcomes.failed(one.user, error)
        else:
            done = "added user" if is_new else "changed the password of"
            outcomes.done(one.user, f"{done} {one.user} ({one.mechanism})")
    return outcomes.finish()


def read_password(user: str) -> bytes:
    """A new password, from the terminal or the first line of standard input; CommandError."""
    from kwire.cli.session import CommandError

    if sys.stdin.isatty():
        import getpass

        password = getpass.getpass(f"password of {user}: ")
        if getpass.getpass("once more: ") != password:
            raise CommandError("the two passwords differ")
    else:
        password = sys.stdin.readline().rstrip("\r\n")
    if not password:
        raise CommandError("the password is empty: type it, or write it to standard input")
    return password.encode()


def run_remove(options: argparse.Namespace) -> int:
    """Remove users; returns the exit code."""
    from kwire.cli.outcomes import Outcomes
    from kwire.cli.planning import begins, unchanged
    from kwire.cli.session import run_on_cluster
    from kwire.client.users import delete_credential, describe_users
    from kwire.errors import KafkaError

    async def work(cluster: "Cluster") -> int:
        found = await describe_users(cluster)
        for user in options.users:
            if user not in found:
                raise _no_user(user, list(found), "kwire users list shows the users")
        wanted = [
            one
            for user in options.users
            for one in found[user]
            if options.mechanism in (None, one.mechanism)
        ]
        steps = [Step(one.user, f"remove user {one.user} ({one.mechanism})") for one in wanted]
        if not begins(options, steps):
            return unchanged(options, steps)
        outcomes = Outcomes(options)
        for one in wanted:
            try:
                await delete_credential(cluster, one)
            except KafkaError as error:
                outcomes.failed(one.user, error)
            else:
                outcomes.done(one.user, f"removed user {one.user} ({one.mechanism})")
        return outcomes.finish()

    return run_on_cluster(options, work)


def _no_user(user: str, known: list[str], otherwise: str) -> Exception:
    from kwire.cli.session import CommandError
    from kwire.cli.suggestions import did_you_mean

    guess = did_you_mean(user, known) or f"; {otherwise}"
    return CommandError(f"there is no user {user}{guess}")
