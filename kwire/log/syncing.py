"""Waiting until the files of many logs are on the disk.

A disk needs little more time for many simultaneous syncs than for one. So several threads sync the
files of all logs together. A broker with 5,000 unsynced segments then stops in about a second and
not in half a minute.

A log takes part as a generator: it yields the files that have to be on the disk, and continues when
they are. If a sync fails, the generator gets the OSError.
"""

from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias, TypeVar

from kwire.errors import KafkaError
from kwire.log.directory_health import passes
from kwire.log.disk import Disk

_T = TypeVar("_T")
_R = TypeVar("_R")

FEW = 16
"""Up to so many files or logs are handled one after the other, without further threads."""


class Unsynced(NamedTuple):
    """Files of one log on ``disk``, and its directory if names of files in it have changed.

    A file that doesn't exist any more is passed over. If the directory doesn't exist, the log gets
    a FileNotFoundError.
    """

    disk: Disk
    files: Sequence[Path]
    directory: Path | None = None


Syncing: TypeAlias = Generator[Unsynced, None, None]
"""One log's part in a sync of many logs."""


def sync_all(logs: Sequence[Syncing], threads: int = 1) -> list[KafkaError | None]:
    """Carry out the syncs of these logs; returns the error of each log, None for success.

    ``threads`` is the number of threads for the work of the logs before and after the syncs.
    Several threads help if this work creates files, because each new file may wait for the disk.
    """
    begun = _mapped(_begin, logs, threads)
    waiting = [
        (log, one) for log, one in zip(logs, begun, strict=True) if isinstance(one, Unsynced)
    ]
    failures = _synced([unsynced for _, unsynced in waiting])
    pairs = [(log, failure) for (log, _), failure in zip(waiting, failures, strict=True)]
    ended = iter(_mapped(_end, pairs, threads))
    return [next(ended) if isinstance(one, Unsynced) else one for one in begun]


def _begin(log: Syncing) -> Unsynced | KafkaError | None:
    """The files to sync, None if everything is on the disk already, or the log's error."""
    try:
        return next(log, None)
    except KafkaError as error:
        return error


def _end(pair: tuple[Syncing, OSError | None]) -> KafkaError | None:
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
        (number, partial(one.disk.sync_path, path))
        for number, one in enumerate(unsynced)
        for path in one.files
    ]
    calls += [
        (number, partial(one.disk.sync_directory, one.directory))
        for number, one in enumerate(unsynced)
        if one.directory is not None
    ]
    failures: list[OSError | None] = [None] * len(unsynced)
    syncers = min([one.disk.syncers for one in unsynced], default=1)
    results = _mapped(_error_of, [call for _, call in calls], syncers)
    for (number, _), failure in zip(calls, results, strict=True):
        before = failures[number]
        if before is None or (failure is not None and passes(before) and not passes(failure)):
            failures[number] = failure
    return failures


def _mapped(function: Callable[[_T], _R], values: Sequence[_T], threads: int) -> list[_R]:
    """The results of a function, which is called in threads if there are many values."""
    if len(values) <= FEW or threads == 1:
        return [function(value) for value in values]
    from kwire.log.several_threads import mapped

    return mapped(function, values, threads, "sync")


def _error_of(call: Callable[[], None]) -> OSError | None:
    try:
        call()
    except OSError as error:
        return error
    return None
