"""``kwire serve``: run a broker until Ctrl-C or SIGTERM.

Exit codes: 0 after a clean stop, 1 when kwire can't start or broke, 2 for a wrong command line.
"""

import argparse
import signal
import sys
from typing import TYPE_CHECKING

from kwire.build import version_text
from kwire.cli import own_process
from kwire.cli.output import fail

if TYPE_CHECKING:
    from kwire.config.broker import BrokerConfig


class UsageError(Exception):
    """The command line doesn't make sense; the text says what does."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """The command's options."""
    serve = commands.add_parser("serve", help="run a broker until Ctrl-C or SIGTERM")
    serve.add_argument("--data-dir", metavar="DIR", help="where to keep data (log.dirs)")
    serve.add_argument(
        "--listen",
        metavar="HOST:PORT",
        action="append",
        default=[],
        help="where to listen; port 0 picks a free one; may be repeated (listeners)",
    )
    serve.add_argument("--config", metavar="FILE", help="a server.properties file")
    serve.add_argument(
        "-o",
        dest="settings",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="one of Kafka's settings; may be repeated, and wins over the file",
    )
    serve.add_argument("-v", "--verbose", action="store_true", help="log more")
    serve.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve; the exit code."""
    own_process.begin()
    from kwire.cli import log_lines
    from kwire.config.broker import BrokerConfig
    from kwire.config.settings import ConfigError

    log_lines.begin(sys.stderr, verbose=options.verbose)
    try:
        config = BrokerConfig.load(_properties(options))
    except (ConfigError, UsageError) as error:
        return fail(str(error))
    return _serve(config)


def _properties(options: argparse.Namespace) -> dict[str, str]:
    """Settings by name: the file, then ``-o``, then the options with names of their own."""
    from pathlib import Path

    from kwire.config.properties import parse_properties

    properties: dict[str, str] = {}
    if options.config is not None:
        try:
            properties.update(parse_properties(Path(options.config).read_text(encoding="utf-8")))
        except OSError as error:
            raise UsageError(f"cannot read {options.config}: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise UsageError(f"cannot read {options.config}: {error}") from error
    for item in options.settings:
        name, separator, value = item.partition("=")
        if not separator:
            raise UsageError(f"-o {item}: write it as NAME=VALUE")
        properties[name.strip()] = value.strip()
    if options.data_dir is not None:
        properties["log.dirs"] = options.data_dir
    if options.listen:
        if any(item.partition("=")[0].strip() == "listeners" for item in options.settings):
            raise UsageError("--listen and -o listeners= say the same: leave one of them out")
        names = [_listener_name(index) for index in range(len(options.listen))]
        addresses = zip(names, map(_address, options.listen), strict=True)
        properties["listeners"] = ",".join(f"{name}://{address}" for name, address in addresses)
        properties["listener.security.protocol.map"] = ",".join(f"{n}:PLAINTEXT" for n in names)
    return properties


def _address(text: str) -> str:
    """``HOST:PORT`` as it was given; UsageError for anything else."""
    _, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535:
        raise UsageError(f"--listen {text}: write it as HOST:PORT, for instance 127.0.0.1:9092")
    return text


def _listener_name(index: int) -> str:
    """The name of a listener of the command line: each needs one of its own."""
    return f"PLAINTEXT{index or ''}"


def _serve(config: "BrokerConfig") -> int:
    import trio

    from kwire.housekeeping import StorageLost
    from kwire.server import Server, StartError, data_directory_text

    async def serve() -> None:
        server = Server(config)
        with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
            async with trio.open_nursery() as nursery:
                await nursery.start(server.serve)
                addresses = ",".join(
                    f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
                    for host, port in server.addresses
                )
                print(
                    f"kwire {version_text()} ready: {addresses} "
                    f"data={data_directory_text(config)} cluster={server.broker.cluster_id}",
                    flush=True,
                )
                async with trio.open_nursery() as serving:
                    serving.start_soon(own_process.settle)
                    await anext(signals)
                    serving.cancel_scope.cancel()
                server.stop()

    reasons: list[str] = []
    try:
        trio.run(serve)
    except* (StartError, StorageLost) as group:
        reasons.append(_reason(group))
    return fail(reasons[0]) if reasons else 0


def _reason(error: BaseException) -> str:
    """What an error says that nurseries have wrapped."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)
