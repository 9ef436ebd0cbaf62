"""Log lines for systemd's journal, which reads their priority from a prefix (sd-daemon(3)).

``journalctl -p warning`` then shows warnings and errors only. The journal removes the prefix.
"""

import logging
import os

STANDARD_ERROR = 2

_PRIORITIES = ((logging.CRITICAL, 2), (logging.ERROR, 3), (logging.WARNING, 4), (logging.INFO, 6))
_DEBUG = 7


def reads_standard_error(stream: str) -> bool:
    """Whether standard error is the journal's stream.

    ``stream`` is what systemd puts into ``JOURNAL_STREAM``: device and inode (systemd.exec(5)). A
    program whose standard error goes elsewhere may inherit the variable.
    """
    try:
        status = os.fstat(STANDARD_ERROR)
    except OSError:
        return False
    return stream == f"{status.st_dev}:{status.st_ino}"


class PriorityFormatter(logging.Formatter):
    """Puts the priority before each line: the journal makes an entry of each."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self._formatter = formatter

    def format(self, record: logging.LogRecord) -> str:
        """The lines, without the newline at the end of the last one."""
        prefix = f"<{_priority(record.levelno)}>"
        return prefix + self._formatter.format(record).replace("\n", f"\n{prefix}")


def _priority(level: int) -> int:
    return next((priority for least, priority in _PRIORITIES if level >= least), _DEBUG)
