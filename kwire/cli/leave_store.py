"""``kwire leave-store``: a stopped cluster goes back from etcd to one broker, or to workers.

Exit codes: 0 if the metadata is in the directory now, 1 if it can't be, 2 for a wrong command line.
"""

import argparse
import shlex

from kwire.cli.output import CommandError, fail, wrong


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    leave = commands.add_parser(
        "leave-store",
        description="Takes the metadata of a stopped cluster from etcd into the data directory of "
        "its broker, which then goes on alone, or with --workers if worker.2, … are in the "
        "directory. All partitions must be here. etcd has to run, and all brokers have to be "
        "stopped. The metadata in etcd is deleted.",
    )
    leave.add_argument(
        "--data-dir",
        metavar="DIR",
        action="append",
        default=[],
        help="the broker's data directory (log.dirs; default: ./kwire-data)",
    )
    leave.add_argument(
        "--config",
        metavar="FILE",
        action="append",
        default=[],
        help="the broker's server.properties file, which may have etcd's password",
    )
    leave.add_argument(
        "-o",
        dest="settings",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="one of its settings; overrides the file; may be repeated. kwire.metadata.store is "
        "what the directory has noted, unless it is given",
    )
    leave.set_defaults(run=run, listen=[], http=[], registry=[], http_admin=False, workers=None)


def run(options: argparse.Namespace) -> int:
    """Take the metadata back; returns the exit code."""
    from random import Random

    import trio

    from kwire.cli.serve import UsageError, place_of, properties_of
    from kwire.config.broker import BrokerConfig
    from kwire.config.settings import ConfigError
    from kwire.workers.leaving import LeavingError, leave_store

    places: dict[str, str] = {}
    try:
        properties, places = properties_of(options)
        config = BrokerConfig.load(properties, places)
        left = trio.run(leave_store, config, Random())
    except ConfigError as error:
        return fail(f"{place_of(error.name, places)}{error}")
    except (CommandError, LeavingError) as error:
        return fail(str(error))
    except UsageError as error:
        return wrong(str(error))
    print(
        f"the metadata of cluster {left.cluster_id} is in {left.file}, and no longer in "
        f"{left.store}; go on with {_serve(options, left.workers)}, without kwire.metadata.store"
    )
    return 0


def _serve(options: argparse.Namespace, workers: int) -> str:
    """The command that serves the same directories, without settings of etcd and its password."""
    from kwire.config.metadata_store import SETTING

    settings = [one for one in options.settings if not one.strip().startswith(SETTING)]
    words = ["kwire", "serve"]
    for option, values in (
        ("--config", options.config),
        ("--data-dir", options.data_dir),
        ("-o", settings),
    ):
        for value in values:
            words += [option, value]
    return shlex.join(words + (["--workers", str(workers)] if workers > 1 else []))
