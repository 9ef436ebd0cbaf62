"""The machine's own limits, measured beside the brokers: no broker can exceed them by much here.

Each probe is a few lines of Python around one system call or one copy. The cost of Python itself
doesn't show, except in the round trip, which takes about twice as long because of it. A broker that
polls for the next request before it sleeps can answer faster than that round trip.
"""

import os
import resource
import socket
import tempfile
import time
from collections.abc import Callable
from multiprocessing import Process
from pathlib import Path
from typing import NamedTuple

import crc32c

MB = 1_000_000
GB = 1_000_000_000
CHUNK = bytes(MB)
FILE_MB = 500


class Limit(NamedTuple):
    """One limit of the machine, and the function that measures it."""

    name: str
    unit: str
    measure: Callable[[Path, float], float]


def _per_second(step: Callable[[], int], seconds: float) -> float:
    """The sum of what ``step`` returns, per second."""
    done, started = 0, time.perf_counter()
    while (spent := time.perf_counter() - started) < seconds:
        done += step()
    return done / spent


def memory_copy(_: Path, seconds: float) -> float:
    """Copy 64 MB from one buffer to another."""
    source, target = memoryview(bytearray(64 * MB)), memoryview(bytearray(64 * MB))

    def step() -> int:
        target[:] = source
        return len(source)

    return _per_second(step, seconds) / GB


def checksum(_: Path, seconds: float) -> float:
    """CRC-32C of a megabyte."""

    def step() -> int:
        crc32c.crc32c(CHUNK)
        return MB

    return _per_second(step, seconds) / GB


def _connected() -> tuple[socket.socket, socket.socket]:
    """The two ends of a TCP connection."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        one = socket.create_connection(server.getsockname())
        other, _ = server.accept()
    for end in (one, other):
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return one, other


def _drain(end: socket.socket, other: socket.socket) -> None:
    other.close()
    buffer = bytearray(MB)
    while end.recv_into(buffer):
        pass


def _echo(end: socket.socket, other: socket.socket) -> None:
    other.close()
    while data := end.recv(4096):
        end.sendall(data)


def _with_peer(
    peer: Callable[[socket.socket, socket.socket], None], work: Callable[[socket.socket], float]
) -> float:
    """Run ``work`` with one end of a connection while a process runs ``peer`` with the other."""
    one, other = _connected()
    process = Process(target=peer, args=(other, one), daemon=True)
    process.start()
    other.close()
    try:
        with one:
            return work(one)
    finally:
        process.join(10)


def loopback(_: Path, seconds: float) -> float:
    """Send megabytes to another process over TCP."""

    def work(end: socket.socket) -> float:
        def step() -> int:
            end.sendall(CHUNK)
            return MB

        return _per_second(step, seconds)

    return _with_peer(_drain, work) / GB


def sendfile(directory: Path, seconds: float) -> float:
    """Send the same 10 MB from the page cache to another process over TCP, without a copy."""
    with tempfile.TemporaryFile(dir=directory) as file:
        for _ in range(10):
            file.write(CHUNK)
        file.flush()

        def work(end: socket.socket) -> float:
            return _per_second(lambda: end.sendfile(file, 0, 10 * MB), seconds)

        return _with_peer(_drain, work) / GB


def round_trip(_: Path, seconds: float) -> float:
    """Median time for sending 100 bytes to another process and back."""
    times = []

    def work(end: socket.socket) -> float:
        stop = time.perf_counter() + seconds
        while (started := time.perf_counter()) < stop:
            end.sendall(CHUNK[:100])
            end.recv(4096)
            times.append(time.perf_counter() - started)
        return sorted(times)[len(times) // 2] * 1e6

    return _with_peer(_echo, work)


def echo_cpu(_: Path, seconds: float) -> float:
    """CPU time of a process that a million times receives 100 bytes, returns them and sleeps."""

    def work(end: socket.socket) -> float:
        def step() -> int:
            end.sendall(CHUNK[:100])
            end.recv(4096)
            return 1

        return _per_second(step, seconds) * seconds

    before_s = _cpu_of_children_s()
    count = _with_peer(_echo, work)
    return (_cpu_of_children_s() - before_s) / count * 1_000_000


def _cpu_of_children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def page_cache(directory: Path, seconds: float) -> float:
    """Append megabytes to files without syncing them."""
    with tempfile.TemporaryDirectory(dir=directory) as name:
        file = Path(name) / "written"
        count = 0

        def step() -> int:
            nonlocal count
            with file.open("ab", buffering=0) as opened:
                written = opened.write(CHUNK)
            count += 1
            if count % FILE_MB == 0:
                file.unlink()
            return written

        return _per_second(step, seconds) / GB


def fsync(directory: Path, seconds: float) -> float:
    """Median time for appending and syncing 4 KB."""
    times = []
    with tempfile.TemporaryFile(dir=directory, buffering=0) as file:
        stop = time.perf_counter() + seconds
        while (started := time.perf_counter()) < stop:
            file.write(CHUNK[:4096])
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - started)
    return sorted(times)[len(times) // 2] * 1e6


LIMITS = [
    Limit("memory copy", "GB/s", memory_copy),
    Limit("CRC-32C", "GB/s", checksum),
    Limit("loopback TCP", "GB/s", loopback),
    Limit("sendfile of the same 10 MB to loopback TCP", "GB/s", sendfile),
    Limit(
        "round trip of 100 bytes over loopback TCP, both ends asleep meanwhile", "µs", round_trip
    ),
    Limit("CPU of a million such echoes, for the one that echoes", "s", echo_cpu),
    Limit("page-cache write", "GB/s", page_cache),
    Limit("4 KB appended and synced (fdatasync)", "µs", fsync),
]


def measured_limits(directory: Path, seconds: float) -> dict[str, tuple[float, str]]:
    """Every limit with its unit; the probes write files to ``directory``."""
    return {limit.name: (limit.measure(directory, seconds), limit.unit) for limit in LIMITS}
