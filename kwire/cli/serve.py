"""``kwire serve``: run a broker until Ctrl-C, SIGTERM or SIGHUP.

SIGHUP, which a terminal sends when it is closed, is a clean stop, as for Kafka's JVM. Under
``nohup`` it is ignored. Under systemd the broker tells its unit when it is ready and when it stops
(``kwire.service``). A signal during the start ends the start.

Exit codes: 0 after a clean stop, 1 if kwire can't start or fails, 2 for a wrong command line.
"""

import argparse
import logging
import os
import signal
import sys
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from kwire import __version__
from kwire.cli import process_tuning
from kwire.cli.output import CommandError, fail, shown, wrong

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from kwire.config.broker import BrokerConfig
    from kwire.dispatch.routing import OpenFrame
    from kwire.server import Server

log = logging.getLogger(__name__)

MOST_WORKERS = 64
"""The limit of ``kwire.workers``."""


class UsageError(Exception):
    """The command line is wrong; the text says how to correct it."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    serve = commands.add_parser(
        "serve",
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
        "--registry",
        metavar="HOST:PORT",
        action="append",
        default=[],
        help="an address for a schema registry (kwire.registry.listen; needs kwire[registry])",
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
    serve.add_argument(
        "--workers",
        metavar="N",
        help="run N brokers, each in a process of its own, as one cluster on this machine; auto: "
        "one for each core. Worker 2 has DIR/worker.2 and the next port, and so on (kwire.workers)",
    )
    _add_log_options(serve)
    serve.set_defaults(run=run, open_frame=None)


def _add_log_options(serve: argparse.ArgumentParser) -> None:
    serve.add_argument("-v", "--verbose", action="store_true", help="log more")
    serve.add_argument(
        "--log-format", choices=("text", "json"), default="text", help="how log lines look"
    )
    serve.add_argument(
        "--log-file",
        metavar="FILE",
        help="log to this file, and not to standard error; worker i logs to FILE.worker.i",
    )
    serve.add_argument(
        "--audit-log-file",
        metavar="FILE",
        help="write the audit log, who logged in and what was denied, to a file of its own",
    )
    serve.add_argument(
        "--audit-allowed",
        action="store_true",
        help="have the audit log tell what was allowed, too; it makes Produce and Fetch slower",
    )
    for option, value, default, text in (
        ("--log-file-mb", "MB", 100, "how large a file may get before it is renamed to FILE.1"),
        ("--log-file-count", "N", 10, "how many such older files are kept"),
    ):
        text = f"{text} (default: {default})"
        serve.add_argument(option, metavar=value, type=int, default=default, help=text)


def run(options: argparse.Namespace) -> int:
    """Serve; returns the exit code."""
    process_tuning.tune_process()
    from kwire.config.broker import BrokerConfig
    from kwire.config.settings import ConfigError

    places: dict[str, str] = {}
    try:
        _begin_log(options)
        properties, places = properties_of(options)
        config = BrokerConfig.load(properties, places)
        if config.has_secrets:
            process_tuning.leave_no_dump()
        workers = config.integer("kwire.workers") or cores()
        if workers > 1:
            from kwire.cli.serve_workers import serve_workers

            begin_log = partial(_begin_log, options)
            return serve_workers(config, workers, begin_log, _warn_if_open, _tell_of_the_end)
    except ConfigError as error:
        return fail(f"{place_of(error.name, places)}{error}")
    except CommandError as error:
        return fail(str(error))
    except UsageError as error:
        return wrong(str(error))
    process_tuning.end_with_parent()
    return _serve(config, options.open_frame)


def cores() -> int:
    """How many cores this process may use, as a number of workers."""
    found = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    return min(found, MOST_WORKERS)


def _begin_log(options: argparse.Namespace, worker: int | None = None) -> None:
    """Log as the options say, for a worker if it is one; UsageError or CommandError."""
    from kwire.cli import log_lines

    handler: logging.Handler = logging.StreamHandler()
    if options.log_file is not None:
        handler = _file("--log-file", options.log_file, options, worker)
    as_json = options.log_format == "json"
    log_lines.start_log(handler, verbose=options.verbose, as_json=as_json, worker=worker)
    if options.audit_log_file is not None:
        file = _file("--audit-log-file", options.audit_log_file, options, worker)
        log_lines.begin_audit(file, handler)
    if options.audit_allowed:
        logging.getLogger(log_lines.AUTHORIZER).setLevel(logging.DEBUG)
    stream = os.environ.get("JOURNAL_STREAM")
    if stream and options.log_file is None:
        from kwire.cli import journal

        if handler.formatter is not None and journal.reads_standard_error(stream):
            handler.setFormatter(journal.PriorityFormatter(handler.formatter))


def _file(
    option: str, path: str, options: argparse.Namespace, worker: int | None
) -> logging.Handler:
    """The file of log lines that an option names; UsageError or CommandError."""
    from kwire.cli.log_file import LogFile

    if options.log_file_mb < 1 or options.log_file_count < 1:
        raise UsageError("--log-file-mb and --log-file-count must be at least 1")
    try:
        name = path if worker is None else f"{path}.worker.{worker}"
        return LogFile(name, options.log_file_mb << 20, options.log_file_count)
    except OSError as error:
        raise CommandError(f"{option} {path}: cannot write to it: {error.strerror}") from error


def place_of(name: str, places: dict[str, str]) -> str:
    """File and line of a setting, by either of its names; empty if it comes from no file."""
    other = {"log.dirs": "log.dir", "node.id": "broker.id", "broker.id": "node.id"}
    return places.get(name) or places.get(other.get(name, ""), "")


def properties_of(options: argparse.Namespace) -> tuple[dict[str, str], dict[str, str]]:
    """The settings by name, and the place in the file of each setting that comes from it.

    ``-o`` overrides the file; ``--data-dir``, ``--listen`` and other options override both.
    """
    properties: dict[str, str] = {}
    places: dict[str, str] = {}
    file = _only("--config", options.config)
    if file is not None:
        from kwire.cli.settings_file import settings_of

        properties, places = settings_of(file)
    own = dict(map(_setting, options.settings))
    data_dir = _only("--data-dir", options.data_dir)
    http = _only("--http", options.http)
    registry = _only("--registry", options.registry)
    for option, given, name in (
        ("--workers", options.workers, "kwire.workers"),
        ("--data-dir", options.data_dir, "log.dirs"),
        ("--data-dir", options.data_dir, "log.dir"),
        ("--listen", options.listen, "listeners"),
        ("--http", options.http, "kwire.http.listen"),
        ("--registry", options.registry, "kwire.registry.listen"),
    ):
        if given and name in own:
            raise UsageError(f"{option} and -o {name}= set the same: leave one of them out")
    if data_dir is not None:
        own["log.dirs"] = data_dir
    if http is not None:
        own["kwire.http.listen"] = http
    if registry is not None:
        own["kwire.registry.listen"] = registry
    if options.workers is not None:
        own["kwire.workers"] = workers_of(options.workers)
    if options.http_admin:
        own["kwire.http.admin.enable"] = "true"
    properties.update(own)
    if options.listen:
        own.update(listener_settings(options.listen, properties))
        properties.update(own)
    return properties, {name: place for name, place in places.items() if name not in own}


def workers_of(text: str) -> str:
    """The value of ``kwire.workers`` for ``--workers``."""
    if text == "auto":
        return "0"
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise UsageError(f"--workers {text}: write a number from 1 on, or auto")
    return text


def _only(option: str, given: list[str]) -> str | None:
    """The value of an option that may be given only once."""
    if len(given) > 1:
        raise UsageError(f"{option} is given twice, {' and '.join(given)}: leave one of them out")
    return given[0] if given else None


def _setting(text: str) -> tuple[str, str]:
    """Split ``NAME=VALUE``."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise UsageError(f"-o {text}: write it as NAME=VALUE")
    return name.strip(), value.strip()


def listener_settings(texts: list[str], properties: dict[str, str]) -> dict[str, str]:
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


def _serve(config: "BrokerConfig", given_open_frame: "OpenFrame | None") -> int:
    import trio

    from kwire.connection.own_wait import own_wait
    from kwire.dispatch.routing import load_in_threads, open_frame
    from kwire.housekeeping import StorageLost
    from kwire.log.loading import LoadingStopped
    from kwire.server import Server, StartError

    servers: list[Server] = []  # keeps the server's objects until process_tuning.end_process
    service_manager = process_tuning.service_manager()

    async def serve(early: list[int]) -> None:
        kind = Server
        if config.metadata_store() is not None:
            from kwire.cluster_server import ClusterServer as kind
        server = kind(config, own_wait=own_wait(), open_frame=given_open_frame or open_frame)
        servers.append(server)
        ended = trio.Event()

        async def serve_to_the_end(task_status: trio.TaskStatus[None]) -> None:
            await server.serve(task_status)
            ended.set()

        with trio.open_signal_receiver(*process_tuning.ending_signals()) as signals:
            process_tuning.raise_again(early)
            async with trio.open_nursery() as nursery:
                await process_tuning.start_server(nursery, serve_to_the_end, signals, server.stop)
                addresses = ",".join(map(shown, server.addresses))
                http = _ports_told(server)
                directories = ",".join(map(str, config.data_directories()))
                ready = (
                    f"kwire {__version__} ready: {addresses} "
                    f"data={directories} cluster={server.broker.cluster_id}{http}"
                )
                process_tuning.print_ready(ready, server.http.token if server.http else None)
                http_addresses = [port.address for port in server.ports if not port.asks_who]
                _warn_if_open(config, server.addresses, http_addresses)
                async with trio.open_nursery() as serving:
                    serving.start_soon(process_tuning.freeze_objects_of_start)
                    serving.start_soon(server.preload)
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
                nursery.start_soon(process_tuning.ignore_signals, signals)
                await ended.wait()
                _tell_of_the_end(server.broker.log_manager.failures, trio.current_time() - began_s)
                nursery.cancel_scope.cancel()

    reasons: list[str] = []
    with process_tuning.late_signals_ignored() as early:
        try:
            with load_in_threads():
                trio.run(serve, early)
        except* (StartError, StorageLost) as group:
            reasons.append(_reason(group))
        except* LoadingStopped:
            log.info("stopped before the broker was ready")
        if reasons:
            return fail(reasons[0])
        return process_tuning.end_process(0)


def _ports_told(server: "Server") -> str:
    """The addresses of the ports that speak HTTP, for the ready line."""
    http = f" http=http://{shown(server.http.address)}/" if server.http else ""
    if server.registry is None:
        return http
    scheme = "https" if server.registry.is_tls else "http"
    return f"{http} registry={scheme}://{shown(server.registry.address)}"


def _tell_of_the_end(failures: "Mapping[Path, str]", took_s: float) -> None:
    """Log that the broker has stopped; the next start recovers failed directories."""
    if failures:
        names = ", ".join(map(str, failures))
        log.warning("stopped in %.1f s, without a clean end of %s, which failed", took_s, names)
    else:
        log.info("stopped cleanly in %.1f s: every log is flushed and closed", took_s)


def _warn_if_open(
    config: "BrokerConfig", addresses: "list[tuple[str, int]]", http: "list[tuple[str, int]]"
) -> None:
    """Warn about addresses that other machines reach and that ask for no authentication."""
    from kwire.config.broker import is_loopback

    if all(is_loopback(host) for host, _ in (*addresses, *http)):
        return
    from kwire.config.exposure import warning

    text = warning(config, addresses, http)
    if text:
        log.warning("%s", text)


def _reason(error: BaseException) -> str:
    """The text of the first error in an exception group."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return str(error)
