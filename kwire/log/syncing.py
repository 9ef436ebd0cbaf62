"""Waiting until the files of many logs are on the disk.

A disk needs little more time for many simultaneous syncs than for one. So several threads sync the
files of all logs together. A broker with 5,000 unsynced segments then stops in about a second and
not in half a minute. For a few files on a fast disk, to start threads would take longer than to
sync. So the syncs of a few files begin one after the other, until that takes long.

A log takes part as a generator: it yields the files that have to be on the disk, and continues when
they are. If a sync fails, the generator gets the OSError.
"""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import NamedTuple, TypeAlias, TypeVar

from kwire.errors import KafkaError
from kwire.log.directory_health import passes
from kwire.log.disk import Disk

_T = TypeVar("_T")
_R = TypeVar("_R")

FEW = 16
"""Up to so many logs are handled one after the other, and so many files while the disk is fast."""

SHORT_S = 0.001
"""When the syncs of a few files have taken longer, threads sync the files that are left."""


class Unsynced(NamedTuple):
    """Files of one log on ``disk``, and its directory if names of files in it have changed.

    A file that doesn't exist any more is passed over. If the directory doesn't exist, the log gets
    a FileNotFoundError. ``lost`` is told at once, in the thread that syncs, of an error after which
    pages may be lost. The system reports that only once. So when another thread syncs the same
    file, that succeeds, although other syncs of this run are still under way.
    """

    disk: Disk
    files: Sequence[Path]
    lost: Callable[[OSError], object]
    directory: Path | None = None


Syncing: TypeAlias = Generator[Unsynced, None, None]
"""One log's part in a sync of many logs."""


def sync_all(logs: Sequence[Syncing], threads: int = 1) -> list[KafkaError | None]:
    """Carry out the syncs of these logs; returns the error of each log, None for success.

    ``threads`` is the number of threads for the work of the logs before and after the syncs.
    Several threads help if this work creates files, because each new file may wait for the disk.
    """
    begun = _mapped(_start_sync, logs, threads)
    waiting = [
        (log, one) for log, one in zip(logs, begun, strict=True) if isinstance(one, Unsynced)
    ]
    failures = _synced([unsynced for _, unsynced in waiting])
    pairs = [(log, failure) for (log, _), failure in zip(waiting, failures, strict=True)]
    ended = iter(_mapped(_end_sync, pairs, threads))
    return [next(ended) if isinstance(one, Unsynced) else one for one in begun]


def _start_sync(log: Syncing) -> Unsynced | KafkaError | None:
    """The files to sync, None if everything is on the disk already, or the log's error."""
    try:
        return next(log, None)
    except KafkaError as error:
        return error


def _end_sync(pair: tuple[Syncing, OSError | None]) -> KafkaError | None:
    """Report the result of its sync to a log; returns the log's error, or None."""
    log, failure = pair
    try:
        if failure is None:
            next(log, None)
        else:
            log.throw(failure)
    except StopIteration:
        return None  # the log was deleted meanwhile
    except KafkaError as error:
        return error
    return None


def sync_one(log: Syncing) -> None:
    """Carry out the sync of one log; raises its KafkaError."""
    (error,) = sync_all([log])
    if error is not None:
        raise error


def _synced(unsynced: Sequence[Unsynced]) -> list[OSError | None]:
    """Sync all files and directories; the error of each log, or None.

    The system reports lost pages only once. So if a log has several errors, an error about lost
    pages takes precedence over an error about a file that couldn't be opened.
    """
    calls = [
        (number, partial(_error_of, partial(one.disk.sync_path, path), one.lost))
        for number, one in enumerate(unsynced)
        for path in one.files
    ]
    calls += [
        (number, partial(_error_of, partial(one.disk.sync_directory, one.directory), one.lost))
        for number, one in enumerate(unsynced)
        if one.directory is not None
    ]
    failures: list[OSError | None] = [None] * len(unsynced)
    syncers = min([one.disk.syncers for one in unsynced], default=1)
    results = _results([call for _, call in calls], syncers)
    for (number, _), failure in zip(calls, results, strict=True):
        before = failures[number]
        if before is None or (failure is not None and passes(before) and not passes(failure)):
            failures[number] = failure
    return failures


def _results(calls: Sequence[Callable[[], _R]], threads: int) -> list[_R]:
    """The results of calls that wait for the disk."""
    done: list[_R] = []
    if len(calls) <= FEW:
        began_s = perf_counter()
        for call in calls:
            if done and threads > 1 and perf_counter() - began_s > SHORT_S:
                break
            done.append(call())
    left = calls[len(done) :]
    return done + _in_threads(_call, left, threads) if left else done


def _call(call: Callable[[], _R]) -> _R:
    return call()


def _mapped(function: Callable[[_T], _R], values: Sequence[_T], threads: int) -> list[_R]:
    """The results of a function, which is called in threads if there are many values."""
    if len(values) <= FEW:
        return [function(value) for value in values]
    return _in_threads(function, values, threads)


def _in_threads(function: Callable[[_T], _R], values: Sequence[_T], threads: int) -> list[_R]:
    """The results of a function, which is called in so many threads."""
    if threads == 1:
        return [function(value) for value in values]
    from kwire.log.parallel_map import parallel_map

    return parallel_map(function, values, threads, "sync")


def _error_of(call: Callable[[], None], lost: Callable[[OSError], object]) -> OSError | None:
    """The error of a sync, or None."""
    try:
        call()
    except OSError as error:
        if not passes(error):
            lost(error)
        return error
    return None
