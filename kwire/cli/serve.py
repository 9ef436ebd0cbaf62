"""``kwire serve``: run a broker until Ctrl-C, SIGTERM or SIGHUP.

SIGHUP, which a terminal sends when it is closed, is a clean stop, as for Kafka's JVM. Under
``nohup`` it is ignored. Under systemd the broker tells its unit when it is ready and when it stops
(``kwire.service``).

Exit codes: 0 after a clean stop, 1 if kwire can't start or fails, 2 for a wrong command line.
"""

import argparse
import logging
import os
import signal
from itertools import count
from typing import TYPE_CHECKING

from kwire.build import version_text
from kwire.cli import own_process
from kwire.cli.output import fail

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping
    from pathlib import Path

    from kwire.config.broker import BrokerConfig
    from kwire.service import ServiceManager

log = logging.getLogger(__name__)


class UsageError(Exception):
    """The command line is wrong; the text says how to correct it."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    serve = commands.add_parser(
        "serve",
        help="run a broker until Ctrl-C or SIGTERM",
        description="Runs a broker until Ctrl-C, SIGTERM or SIGHUP. Settings have Kafka's names. "
        "-o overrides the file. Without any settings the broker keeps its data in ./kwire-data "
        "and listens on 127.0.0.1:9092.",
    )
    serve.add_argument(
        "--data-dir",
        metavar="DIR",
        action="append",
        default=[],
        help="the data directory (log.dirs; default: ./kwire-data)",
    )
    serve.add_argument(
        "--listen",
        metavar="HOST:PORT",
        action="append",
        default=[],
        help="an address to listen on (listeners; default: 127.0.0.1:9092); may be repeated. "
        "*:9092 means every interface, port 0 a free port, NAME://HOST:PORT names the listener",
    )
    serve.add_argument(
        "--http",
        metavar="HOST:PORT",
        action="append",
        default=[],
        help="an address for HTTP: a page, metrics, health (kwire.http.listen; needs kwire[web])",
    )
    serve.add_argument(
        "--http-admin",
        action="store_true",
        help="let an administrator change topics, records and offsets on the page of --http; "
        "prints the token to log in (kwire.http.admin.enable)",
    )
    serve.add_argument(
        "--config", metavar="FILE", action="append", default=[], help="a server.properties file"
    )
    serve.add_argument(
        "-o",
        dest="settings",
        metavar="NAME=VALUE",
        action="append",
        default=[],
        help="one of Kafka's settings; overrides the file; may be repeated",
    )
    serve.add_argument("-v", "--verbose", action="store_true", help="log more")
    serve.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="how log lines look"
    )
    serve.add_argument(
        "--log-file", metavar="FILE", help="log to this file, and not to standard error"
    )
    serve.add_argument(
        "--log-file-mb",
        metavar="MB",
        type=int,
        default=100,
        help="how large the file may get before it is renamed to FILE.1 (default: 100)",
    )
    serve.add_argument(
        "--log-file-count",
        metavar="N",
        type=int,
        default=10,
        help="how many such older files are kept (default: 10)",
    )
    serve.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve; returns the exit code."""
    own_process.begin()
    from kwire.config.broker import BrokerConfig
    from kwire.config.settings import ConfigError

    places: dict[str, str] = {}
    try:
        _begin_log(options)
        properties, places = _properties(options)
        config = BrokerConfig.load(properties, places)
    except ConfigError as error:
        return fail(f"{_place_of(error.name, places)}{error}")
    except UsageError as error:
        return fail(str(error))
    return _serve(config)


def _begin_log(options: argparse.Namespace) -> None:
    """Log as the options say; UsageError if the file can't be used."""
    from kwire.cli import log_lines

    handler: logging.Handler = logging.StreamHandler()
    if options.log_file is not None:
        from kwire.cli.log_file import LogFile

        if options.log_file_mb < 1 or options.log_file_count < 1:
            raise UsageError("--log-file-mb and --log-file-count must be at least 1")
        try:
            handler = LogFile(options.log_file, options.log_file_mb << 20, options.log_file_count)
        except OSError as error:
            problem = f"--log-file {options.log_file}: cannot write to it: {error.strerror}"
            raise UsageError(problem) from error
    as_json = options.log_format == "json"
    log_lines.begin(handler, verbose=options.verbose, as_json=as_json)


def _place_of(name: str, places: dict[str, str]) -> str:
    """File and line of a setting, by either of its names; empty if it comes from no file."""
    other = {"log.dirs": "log.dir", "node.id": "broker.id", "broker.id": "node.id"}
    return places.get(name) or places.get(other.get(name, ""), "")


def _properties(options: argparse.Namespace) -> tuple[dict[str, str], dict[str, str]]:
    """The settings by name, and the place in the file of each setting that comes from it.

    ``-o`` overrides the file; ``--data-dir``, ``--listen`` and ``--http`` override both.
    """
    properties, places = _of_file(_only("--config", options.config))
    own = dict(map(_setting, options.settings))
    data_dir = _only("--data-dir", options.data_dir)
    http = _only("--http", options.http)
    for option, given, name in (
        ("--data-dir", options.data_dir, "log.dirs"),
        ("--data-dir", options.data_dir, "log.dir"),
        ("--listen", options.listen, "listeners"),
        ("--http", options.http, "kwire.http.listen"),
    ):
        if given and name in own:
            raise UsageError(f"{option} and -o {name}= set the same: leave one of them out")
    if data_dir is not None:
        own["log.dirs"] = data_dir
    if http is not None:
        own["kwire.http.listen"] = http
    if options.http_admin:
        own["kwire.http.admin.enable"] = "true"
    properties.update(own)
    if options.listen:
        own.update(_listeners(options.listen, properties))
        properties.update(own)
    return properties, {name: place for name, place in places.items() if name not in own}


def _only(option: str, given: list[str]) -> str | None:
    """The value of an option that may be given only once."""
    if len(given) > 1:
        raise UsageError(f"{option} is given twice, {' and '.join(given)}: leave one of them out")
    return given[0] if given else None


def _of_file(name: str | None) -> tuple[dict[str, str], dict[str, str]]:
    """The settings of a file, and the line of each; empty without a file name."""
    if name is None:
        return {}, {}
    from pathlib import Path

    from kwire.config.properties import located_properties

    try:
        data = Path(name).read_bytes()
        found = located_properties(data.decode())
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = data[: error.start].count(b"\n") + 1
        raise UsageError(f"cannot read {name}: line {line} is not UTF-8") from error
    values = {key: value for key, (value, _) in found.items()}
    return values, {key: f"{name}, line {line}: " for key, (_, line) in found.items()}


def _setting(text: str) -> tuple[str, str]:
    """Split ``NAME=VALUE``."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise UsageError(f"-o {text}: write it as NAME=VALUE")
    return name.strip(), value.strip()


def _listeners(texts: list[str], properties: dict[str, str]) -> dict[str, str]:
    """The settings that ``--listen`` implies: one listener per address, PLAINTEXT by default."""
    listeners = [_listener(text) for text in texts]
    taken = {name for name, _ in listeners}
    free = (name for index in count() if (name := f"PLAINTEXT{index or ''}") not in taken)
    listeners = [(name or next(free), address) for name, address in listeners]
    setting = "listener.security.protocol.map"
    pairs = [pair for pair in properties.get(setting, "").split(",") if pair.strip()]
    mapped = {pair.partition(":")[0].strip().upper() for pair in pairs}
    mapped |= {"SSL", "SASL_PLAINTEXT", "SASL_SSL"}  # names that imply their protocol
    pairs += [f"{name}:PLAINTEXT" for name, _ in listeners if name not in mapped]
    return {
        "listeners": ",".join(f"{name}://{address}" for name, address in listeners),
        setting: ",".join(pairs),
    }


def _listener(text: str) -> tuple[str, str]:
    """Name, possibly empty, and address of ``HOST:PORT`` or ``NAME://HOST:PORT``.

    The host ``*`` means every interface, which Kafka writes as an empty host. UsageError for any
    other text.
    """
    from kwire.config.broker import is_port

    name, separator, address = text.rpartition("://")
    host, colon, port = address.rpartition(":")
    is_bare_ipv6 = ":" in host and not host.startswith("[")
    if not colon or not port or "]" in port or is_bare_ipv6 or bool(name) != bool(separator):
        raise UsageError(
            f"--listen {text}: write it as HOST:PORT or NAME://HOST:PORT, for instance "
            "127.0.0.1:9092, [::1]:9092 or PLAINTEXT://:9092"
        )
    if not is_port(port):
        raise UsageError(f"--listen {text}: the port {port} must be a number from 0 to 65535")
    return name.upper(), f":{port}" if host == "*" else address


def _serve(config: "BrokerConfig") -> int:
    import trio

    from kwire.connection.own_wait import own_wait
    from kwire.housekeeping import StorageLost
    from kwire.server import Server, StartError, data_directories

    servers: list[Server] = []  # keeps the server's objects until own_process.leave
    service_manager = _service_manager()

    async def serve() -> None:
        server = Server(config, own_wait=own_wait())
        servers.append(server)
        ended = trio.Event()

        async def serve_to_the_end(task_status: trio.TaskStatus[None]) -> None:
            await server.serve(task_status)
            ended.set()

        with trio.open_signal_receiver(*_ending_signals()) as signals:
            async with trio.open_nursery() as nursery:
                await nursery.start(serve_to_the_end)
                addresses = ",".join(map(_shown, server.addresses))
                http = f" http=http://{_shown(server.http.address)}/" if server.http else ""
                directories = ",".join(map(str, data_directories(config)))
                print(
                    f"kwire {version_text()} ready: {addresses} "
                    f"data={directories} cluster={server.broker.cluster_id}{http}",
                    flush=True,
                )
                _warn_if_open(config, server.addresses)
                if server.http and server.http.token and server.http.token.is_new:
                    print(f"kwire http admin token: {server.http.token.text}", flush=True)
                async with trio.open_nursery() as serving:
                    serving.start_soon(own_process.settle)
                    if service_manager is not None:
                        service_manager.ready(addresses)
                        serving.start_soon(service_manager.keep_telling)
                    if await anext(signals) == signal.SIGHUP:
                        log.warning("stopping: the terminal was closed (SIGHUP)")
                    serving.cancel_scope.cancel()
                began_s = trio.current_time()
                if service_manager is not None:
                    service_manager.stopping()
                server.stop()
                nursery.start_soon(_pass_over, signals)  # a second Ctrl-C must not kill the process
                await ended.wait()
                _tell_of_the_end(server.broker.log_manager.failures, trio.current_time() - began_s)
                nursery.cancel_scope.cancel()

    reasons: list[str] = []
    try:
        trio.run(serve)
    except* (StartError, StorageLost) as group:
        reasons.append(_reason(group))
    if reasons:
        return fail(reasons[0])
    return own_process.leave(0)


def _tell_of_the_end(failures: "Mapping[Path, str]", took_s: float) -> None:
    """Log that the broker has stopped; the next start recovers failed directories."""
    if failures:
        names = ", ".join(map(str, failures))
        log.warning("stopped in %.1f s, without a clean end of %s, which failed", took_s, names)
    else:
        log.info("stopped cleanly in %.1f s: every log is flushed and closed", took_s)


def _shown(address: tuple[str, int]) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _service_manager() -> "ServiceManager | None":
    """The service manager that has started this process and waits for word; None without one."""
    if not os.environ.get("NOTIFY_SOCKET"):
        return None
    from kwire.service import ServiceManager

    service_manager = ServiceManager()
    service_manager.starting()
    return service_manager


def _warn_if_open(config: "BrokerConfig", addresses: "list[tuple[str, int]]") -> None:
    """Warn about addresses that other machines reach and that ask for no authentication."""
    from kwire.config.broker import is_loopback

    if all(is_loopback(host) for host, _ in addresses):
        return
    from kwire.config.exposure import warning

    text = warning(config, addresses)
    if text:
        log.warning("%s", text)


def _ending_signals() -> list[signal.Signals]:
    """The signals that stop a broker cleanly; without SIGHUP under ``nohup``."""
    ending = [signal.SIGTERM, signal.SIGINT]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        ending.append(signal.SIGHUP)
    return ending


async def _pass_over(signals: "AsyncIterator[int]") -> None:
    async for _ in signals:
        pass


def _reason(error: BaseException) -> str:
    """The text of the first error in an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)
