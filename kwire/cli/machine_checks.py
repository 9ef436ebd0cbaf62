"""The checks of ``kwire doctor`` outside the data directories: limits, clock, ports."""

import errno
import socket
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

from kwire.cli.finding import ACT, GOOD, NOTE, Finding

FILES_FOR_A_PARTITION = 3
"""The files of a partition: a log, an offset index and a time index."""

LEAST_DESCRIPTORS = 1024
FUTURE_S = 60
"""If a file is newer than the clock by more than this, the clock was set back."""

_OLDEST_YEAR = 2024


def check_descriptors(partitions: int) -> Finding:
    """The limit of open files against the partitions."""
    import resource

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = "unlimited" if hard == resource.RLIM_INFINITY else f"{hard:,}"
    what = f"open files: the limit is {limit}, {partitions:,} partitions are here"
    remedy = "raise it: ulimit -Hn 100000, or LimitNOFILE=100000 in the systemd unit"
    if hard == resource.RLIM_INFINITY:
        return Finding(GOOD, what)
    if hard < LEAST_DESCRIPTORS:
        why = "connections and files share the limit: clients are refused when it is reached"
        return Finding(ACT, what, why, remedy)
    if partitions * FILES_FOR_A_PARTITION > hard // 2:
        why = "files are closed and opened again all the time, which makes every request slower"
        return Finding(NOTE, what, why, remedy)
    return Finding(GOOD, what)


def check_clock(directories: Iterable[Path], now_s: float | None = None) -> Finding:
    """The clock against the times of the files."""
    now_s = time.time() if now_s is None else now_s
    now = datetime.fromtimestamp(now_s, UTC).astimezone()
    what = f"clock: {now.isoformat(sep=' ', timespec='seconds')}"
    remedy = "set the clock, and keep it right with chrony or systemd-timesyncd"
    if now.year < _OLDEST_YEAR:
        why = "records get wrong timestamps, and retention deletes by them"
        return Finding(ACT, f"{what} is years behind", why, remedy)
    newest_s, newest = max(
        ((path.stat().st_mtime, path) for path in _own_files(directories)),
        default=(0.0, Path()),
    )
    if newest_s > now_s + FUTURE_S:
        ahead = f"{newest} is {newest_s - now_s:,.0f} s newer"
        why = (
            "the clock was set back, or the files come from a machine whose clock is ahead: "
            "retention by time waits until the clock has caught up"
        )
        return Finding(ACT, f"{what}, but {ahead}", why, remedy)
    return Finding(GOOD, what)


def _own_files(directories: Iterable[Path]) -> Iterable[Path]:
    """The files of data directories, and of the partitions in them."""
    for directory in directories:
        if directory.is_dir():
            for pattern in ("*", "*/*.log"):
                yield from (path for path in directory.glob(pattern) if path.is_file())


def check_ports(addresses: Iterable[tuple[str, int]], *, is_running: bool) -> list[Finding]:
    """Whether a broker could listen; a port in use is right while the broker runs."""
    findings = []
    for host, port in addresses:
        shown = f"{host or '*'}:{port}"
        error = _why_not(host, port)
        if error is None:
            findings.append(Finding(GOOD, f"port: {shown} is free"))
        elif error.errno == errno.EADDRINUSE and is_running:
            findings.append(Finding(GOOD, f"port: {shown} is in use, and a broker is running"))
        else:
            reason = (error.strerror or str(error)).lower()
            why = "a broker cannot listen there, and does not start"
            remedy = (
                "nothing, if that is your broker; else find its owner with "
                f"ss -ltnp 'sport = :{port}', or choose another --listen"
            )
            findings.append(Finding(ACT, f"port: {shown}: {reason}", why, remedy))
    return findings


def _why_not(host: str, port: int) -> OSError | None:
    """Why a socket can't be bound to an address, None if it can."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
            probe.listen(1)
    except OSError as error:
        return error
    return None
