"""The broker's messages to the service manager that has started it, by systemd's sd_notify(3).

systemd starts units that need Kafka after ``READY=1``, and ``systemctl status`` shows the status.

Rules:

- Messages are datagrams to the socket that ``NOTIFY_SOCKET`` names. Without it nothing is sent, and
  ``kwire serve`` doesn't even import this module.
- A message that can't be sent is left out: clients of the broker are served all the same.
- The event loop itself sends the sign of life that ``WatchdogSec=`` asks for. A loop that hangs
  answers no client, and it sends no sign of life either. The sign says nothing about disks, because
  the broker handles their errors itself.
"""

import logging
import os
import socket
from collections.abc import Mapping
from contextlib import suppress

import trio

log = logging.getLogger(__name__)

NOTIFY_SOCKET = "NOTIFY_SOCKET"
SIGNS_PER_WATCHDOG_INTERVAL = 3
"""systemd advises two. With three, one may be late without harm."""


class ServiceManager:
    """The service manager that ``environment`` names."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        name = environment[NOTIFY_SOCKET]
        self._address = "\0" + name[1:] if name.startswith("@") else name  # an abstract name
        self._interval_s = _watchdog_s(environment) / SIGNS_PER_WATCHDOG_INTERVAL

    def starting(self) -> None:
        """Report that the broker opens its logs, which takes long if it has to recover many."""
        self._send_lines("STATUS=starting: opening the logs")

    def ready(self, addresses: str) -> None:
        """Report that clients are served on ``addresses``."""
        self._send_lines("READY=1", f"STATUS=serving on {addresses}")

    def stopping(self) -> None:
        """Report that the broker ends its connections and closes its logs."""
        self._send_lines("STOPPING=1", "STATUS=stopping: closing connections and logs")

    async def keep_telling(self) -> None:
        """Send signs of life forever; return at once if the service manager wants none."""
        while self._interval_s > 0:
            self._send_lines("WATCHDOG=1")
            await trio.sleep(self._interval_s)

    def _send_lines(self, *lines: str) -> None:
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
                sender.setblocking(False)
                sender.sendto("\n".join(lines).encode(), self._address)
        except OSError as error:
            log.debug("cannot tell the service manager %s: %s", lines[0], error)


def _watchdog_s(environment: Mapping[str, str]) -> float:
    """After how many seconds without a sign of life the service manager acts; 0 for never."""
    if environment.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid()):
        with suppress(ValueError):
            return max(int(environment.get("WATCHDOG_USEC", "0")), 0) / 1e6
    return 0.0
