"""Rows of memory: the whole process, and one connection."""

import contextlib

from bench.load import ask, connected, frame_of, read_response
from bench.rows.common import Row, Running
from bench.usage import proportional_mb, resident_mb
from kwire.protocol.messages.api_versions import ApiVersionsRequest

CONNECTIONS = 500
VERSION = 3


def kb_per_connection(running: Running) -> float:
    """Memory of an idle connection that has sent one request, in kilobytes.

    The broker must not have had a load: memory that a load has left would hide the increase.
    """
    request = ApiVersionsRequest(client_software_name="bench", client_software_version="1")
    bootstrap = running.broker.bootstrap
    ask(bootstrap, request, VERSION)
    frame = frame_of(request, VERSION)
    with contextlib.ExitStack() as stack:
        before = resident_mb(running.broker.pid)
        for _ in range(CONNECTIONS):
            connection = stack.enter_context(connected(bootstrap))
            connection.sendall(frame)
            read_response(connection, request, VERSION)
        return (resident_mb(running.broker.pid) - before) * 1000 / CONNECTIONS


def memory_rows(when: str) -> list[Row]:
    """Rows for resident memory, and for PSS, in which shared pages count by their share."""
    return [
        Row(f"memory {when}", "MB", False, lambda running: resident_mb(running.broker.pid)),
        Row(
            f"memory {when}: PSS", "MB", False, lambda running: proportional_mb(running.broker.pid)
        ),
    ]


IDLE_ROWS = [
    *memory_rows("when idle"),
    Row("memory per idle connection", "KB", False, kb_per_connection),
]
"""Measured after a broker's start, before any load."""

MEMORY_ROWS: list[Row] = memory_rows("after the load")
