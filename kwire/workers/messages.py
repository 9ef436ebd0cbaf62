"""The objects that the processes of ``kwire serve --workers`` share when they are forked."""

import socket
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

MOST_BYTES = 4096
"""How many bytes of messages are read at a time."""

Tell = Callable[[dict[str, Any]], None]
"""Sends a message to the supervisor."""


class Ways(NamedTuple):
    """The functions that the command gives to its processes.

    ``begin_log`` puts a worker's name into its log lines. ``start`` starts a server in a nursery,
    unless a signal ends the start. ``settle`` is a task for after the start. ``stopped`` logs the
    end: the directories that failed, and the seconds of the stop. ``leave`` ends the process with
    an exit code.
    """

    begin_log: Callable[[int], None]
    start: Callable[..., Awaitable[None]]
    settle: Callable[[], Awaitable[None]]
    stopped: Callable[[Mapping[Path, str], float], None]
    leave: Callable[[int], NoReturn]


class Ends(NamedTuple):
    """The supervisor's ends of two sockets, and the template's process; ``life`` ends with it."""

    control: socket.socket
    life: socket.socket
    pid: int
