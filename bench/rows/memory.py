"""Rows of memory: the whole process, and what one connection costs."""

import contextlib
import socket

from bench.load import frame_of, read_response
from bench.rows.common import Row, Running
from bench.usage import proportional_mb, resident_mb
from kwire.protocol.messages.find_coordinator import FindCoordinatorRequest


def kb_per_connection(running: Running) -> float:
    """Memory of an idle connection that has made one request, in kilobytes."""
    host, _, port = running.broker.bootstrap.rpartition(":")
    request = FindCoordinatorRequest(coordinator_keys=["bench"])
    frame = frame_of(request, 4)
    with contextlib.ExitStack() as stack:
        before = resident_mb(running.broker.pid)
        for _ in range(500):
            connection = stack.enter_context(socket.create_connection((host, int(port))))
            connection.sendall(frame)
            read_response(connection, request, 4)
        return (resident_mb(running.broker.pid) - before) * 1000 / 500


def memory_rows(when: str) -> list[Row]:
    """Resident memory, and the same with shared pages counted by their share."""
    return [
        Row(f"memory {when}", "MB", False, lambda running: resident_mb(running.broker.pid)),
        Row(
            f"memory {when}: PSS", "MB", False, lambda running: proportional_mb(running.broker.pid)
        ),
    ]


IDLE_ROWS = memory_rows("when idle")
"""Measured once a broker has started, before any load."""

MEMORY_ROWS: list[Row] = [
    Row("memory per idle connection", "KB", False, kb_per_connection),
    *memory_rows("after the load"),
]
