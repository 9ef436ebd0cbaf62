"""``kwire serve --workers N``: the supervisor of several brokers on one machine.

It prints the same as one broker: one ready line, with the addresses of all workers in the order of
their numbers, and one line for an error. Its exit codes are the same, too.

If the template ends, no worker can be started again, and this process can't fork another template:
it has threads and an event loop. So the workers stop, and the command starts over, in the same
process. It prints the ready line again.
"""

import logging
import signal
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import trio

from kwire import __version__
from kwire.cli import process_tuning
from kwire.cli.output import fail, shown
from kwire.config.broker import BrokerConfig
from kwire.log.loading import LoadingStopped
from kwire.workers.directory import (
    LONG_PATIENCE_S,
    PATIENCE_S,
    WorkersError,
    lock_directories,
    open_metadata,
)
from kwire.workers.messages import Ends, Ways
from kwire.workers.settings import worker_settings
from kwire.workers.supervisor import Supervisor, TemplateEnded
from kwire.workers.template import end_template, fork_template

log = logging.getLogger(__name__)

WarnIfOpen = Callable[[BrokerConfig, list[tuple[str, int]], list[tuple[str, int]]], None]


def serve_workers(
    config: BrokerConfig,
    count: int,
    begin_log: Callable[[int], None],
    warn_if_open: WarnIfOpen,
    stopped: Callable[[Mapping[Path, str], float], None],
) -> int:
    """Serve with so many workers; returns the exit code, or raises ConfigError."""
    configs = worker_settings(config, count)
    try:
        patience_s = LONG_PATIENCE_S if process_tuning.has_restarted() else PATIENCE_S
        locks = lock_directories(config, patience_s)
    except WorkersError as error:
        return fail(str(error))
    ways = Ways(
        begin_log,
        process_tuning.start_server,
        process_tuning.freeze_objects_of_start,
        stopped,
        process_tuning.end_process,
    )
    ends = fork_template(configs, locks, ways)
    process_tuning.end_with_parent()
    return _supervise(config, count, ends, warn_if_open)


def _supervise(config: BrokerConfig, count: int, ends: Ends, warn_if_open: WarnIfOpen) -> int:
    service_manager = process_tuning.service_manager()

    async def supervise(early: list[int]) -> None:
        ended = trio.Event()

        async def supervise_to_the_end(task_status: trio.TaskStatus[None]) -> None:
            await supervisor.run(task_status)
            ended.set()

        with trio.open_signal_receiver(*process_tuning.ending_signals()) as signals:
            process_tuning.raise_again(early)
            store = await open_metadata(config, count)
            supervisor = Supervisor(ends, store, count)
            async with trio.open_nursery() as nursery:
                await process_tuning.start_server(
                    nursery, supervise_to_the_end, signals, supervisor.stop
                )
                addresses = _say_ready(config, supervisor)
                warn_if_open(config, addresses, _http(supervisor))
                async with trio.open_nursery() as serving:
                    serving.start_soon(process_tuning.freeze_objects_of_start)
                    if service_manager is not None:
                        service_manager.ready(",".join(map(shown, addresses)))
                        serving.start_soon(service_manager.keep_telling)
                    if await anext(signals) == signal.SIGHUP:
                        log.warning("stopping: the terminal was closed (SIGHUP)")
                    serving.cancel_scope.cancel()
                if service_manager is not None:
                    service_manager.stopping()
                supervisor.stop()
                nursery.start_soon(process_tuning.ignore_signals, signals)
                await ended.wait()
                nursery.cancel_scope.cancel()
        await store.close()

    with process_tuning.late_signals_ignored() as early:
        why = _run(partial(supervise, early))
        end_template(ends)
        if isinstance(why, TemplateEnded) and process_tuning.may_restart():
            log.warning("%s; all workers stop and start again", why)
            process_tuning.restart_process()
        return process_tuning.end_process(0) if why is None else fail(str(why))


def _run(supervise: Callable[[], Awaitable[None]]) -> BaseException | None:
    """Run it to its end; returns the WorkersError that has ended it."""
    reasons: list[BaseException] = []
    try:
        trio.run(supervise)
    except* WorkersError as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        reasons.append(error)
    except* LoadingStopped:
        log.info("stopped before the workers were ready")
    return reasons[0] if reasons else None


def _http(supervisor: Supervisor) -> list[tuple[str, int]]:
    """The addresses of the workers' HTTP ports, if they have some."""
    told = [worker.ready["http"] for worker in supervisor.workers if worker.ready]
    return [(host, port) for host, port in filter(None, told)]


def _say_ready(config: BrokerConfig, supervisor: Supervisor) -> list[tuple[str, int]]:
    """Print the ready line; returns the addresses of all workers."""
    told: list[dict[str, Any]] = [worker.ready or {} for worker in supervisor.workers]
    addresses = [(host, port) for one in told for host, port in one["ready"]]
    urls = [f"http://{shown(one['http'])}/" for one in told if one["http"]]
    http = f" http={','.join(urls)}" if urls else ""
    directories = ",".join(map(str, config.data_directories()))
    tokens = [
        f"kwire http admin token of worker {number}: {one['token']}"
        for number, one in enumerate(told, 1)
        if one["token"]
    ]
    process_tuning.print_ready(
        f"kwire {__version__} ready: {','.join(map(shown, addresses))} data={directories} "
        f"cluster={told[0]['cluster']}{http} workers={len(told)}",
        others=tokens,
    )
    return addresses
