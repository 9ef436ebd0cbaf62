"""``kwire secure``: makes and renews the files with which a team begins a secured cluster."""

import argparse
import re
from pathlib import Path

from kwire.cli.options import positive
from kwire.cli.output import fail, wrong
from kwire.cli.process_tuning import leave_no_dump

_USER = re.compile(r"[A-Za-z0-9._-]{1,64}")
_HOST = re.compile(r"[A-Za-z0-9.:-]{1,253}")
_ADDRESS = re.compile(r"[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*")
"""An IPv6 address has at least two colons; with one colon, a port follows a name."""

_PATH = re.compile(r"[^\s\"'\\,]+")
_MOST_BROKERS, _MOST_WORKERS = 100, 64
_MOST_PORT, _LAST_PORT = 50_000, 65_535
"""Several brokers need further ports above the clients' port."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command, its action and its options."""
    secure = commands.add_parser("secure")
    actions = secure.add_subparsers(dest="action", required=True, metavar="ACTION")
    init = actions.add_parser(
        "init",
        help="make the files of a secured cluster",
        description="Makes a CA, the brokers' certificates, a first user with a password for "
        "SCRAM, settings that kwire serve starts with as they are, and client properties. "
        "Prints what clients need. It overwrites nothing.",
    )
    init.add_argument("directory", metavar="DIR", type=Path, help="a directory to make")
    init.add_argument(
        "--host",
        metavar="NAME",
        action="append",
        default=[],
        help="a name or address by which clients reach the cluster; may be repeated: with one for "
        "each broker, the first is the first broker's (default: this machine only)",
    )
    init.add_argument(
        "--user", metavar="NAME", default="admin", help="who may do everything (default: admin)"
    )
    init.add_argument(
        "--brokers",
        metavar="N",
        type=positive,
        default=1,
        help="how many brokers, each on a machine of its own (default: 1)",
    )
    init.add_argument(
        "--workers",
        metavar="N",
        type=positive,
        default=1,
        help="how many workers of one broker, on one machine (default: 1)",
    )
    init.add_argument(
        "--port",
        metavar="PORT",
        type=positive,
        default=9092,
        help="of clients; brokers reach each other 10000 above it (default: 9092)",
    )
    init.add_argument(
        "--metadata-store",
        metavar="URL",
        default="etcd://127.0.0.1:2379/kwire",
        help="where several brokers keep their metadata (default: etcd://127.0.0.1:2379/kwire)",
    )
    init.set_defaults(run=run)
    _add_renew(actions)


def _add_renew(actions: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    renew = actions.add_parser(
        "renew",
        help="make new certificates before the old ones end",
        description="Makes a new key and a new certificate, from the same CA, for every broker's "
        ".pem file in a directory that kwire secure init has made, and replaces the file. A broker "
        "that uses the file reads it within seconds, without a restart; copy it to those on other "
        "machines.",
    )
    renew.add_argument("directory", metavar="DIR", type=Path, help="the directory with ca.pem")
    renew.add_argument(
        "--ca-key", metavar="FILE", type=Path, help="the CA's key (default: ca.key in DIR)"
    )
    renew.set_defaults(run=run_renew)


def run(options: argparse.Namespace) -> int:
    """Make the files; returns the exit code."""
    problem = _problem(options)
    if problem:
        return wrong(problem)
    leave_no_dump()
    try:
        from kwire.security.first_files import Plan, client_lines, write_files
    except ImportError:
        return _no_cryptography()
    plan = Plan(
        options.directory.absolute(),
        options.host,
        options.user,
        options.brokers,
        options.port,
        options.metadata_store,
        options.workers,
    )
    try:
        write_files(plan)
    except FileExistsError as error:
        return fail(f"{error}; kwire secure init overwrites nothing: name another directory")
    except OSError as error:
        return fail(f"cannot make {plan.directory}: {error.strerror}")
    print(f"made {plan.directory}: keep its ca.key where no broker and no client is\n")
    for number in range(1, plan.brokers + 1):
        print(f"kwire serve --config {plan.settings_file(number)}")
    for what, lines in client_lines(plan).items():
        print(f"\n# {what}\n{lines}")
    return 0


def _no_cryptography() -> int:
    from kwire.config.extras import needs

    return fail(f"kwire secure {needs('security', 'cryptography')}")


def run_renew(options: argparse.Namespace) -> int:
    """Renew the certificates; returns the exit code."""
    directory: Path = options.directory.absolute()
    leave_no_dump()
    try:
        from kwire.security.first_files import SERVER_DAYS
        from kwire.security.renewal import CannotRenew, renew
    except ImportError:
        return _no_cryptography()
    try:
        renewed = renew(directory, options.ca_key or directory / "ca.key", SERVER_DAYS)
    except CannotRenew as error:
        return fail(str(error))
    except OSError as error:
        return fail(f"cannot write in {directory}: {error.strerror}")
    for path, ends in renewed:
        print(f"renewed {path}: its certificate ends on {ends:%Y-%m-%d}")
    return 0


def _problem(options: argparse.Namespace) -> str | None:
    """The first part of the command line that can't be used, with the reason."""
    if not _USER.fullmatch(options.user):
        return f"--user {options.user}: write letters, digits, dots, hyphens, underscores"
    for host in options.host:
        if not _HOST.fullmatch(host) or (":" in host and not _ADDRESS.fullmatch(host)):
            return f"--host {host}: write a host's name or address, without a port"
    if not _PATH.fullmatch(str(options.directory.absolute())):
        return (
            f"{options.directory}: blanks, quotes, commas and backslashes can't stand in settings"
        )
    return _too_many(options)


def _too_many(options: argparse.Namespace) -> str | None:
    if options.brokers > _MOST_BROKERS:
        return f"--brokers {options.brokers}: there may be {_MOST_BROKERS} at most"
    most = _MOST_PORT if options.brokers > 1 or options.workers > 1 else _LAST_PORT
    if options.port > most:
        return f"--port {options.port}: it may be {most} at most"
    if options.workers > _MOST_WORKERS:
        return f"there may be {_MOST_WORKERS} workers at most"
    if options.brokers > 1 and options.workers > 1:
        return "--brokers are on several machines, --workers on one: leave one of them out"
    return None
