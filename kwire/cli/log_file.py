"""The file of ``kwire serve --log-file``, and its older files.

Rules:

- When the file is full it is renamed to ``FILE.1``, ``FILE.1`` to ``FILE.2``, and so on. The oldest
  file is removed.
- A file that can't be written, for instance on a full disk, doesn't stop the broker. Standard error
  says so once.
"""

import logging
import sys
from logging.handlers import RotatingFileHandler


class LogFile(RotatingFileHandler):
    """Writes lines to the file at ``path``; keeps ``kept`` older files. OSError at once."""

    def __init__(self, path: str, max_bytes: int, kept: int) -> None:
        super().__init__(path, maxBytes=max_bytes, backupCount=kept, encoding="utf-8")
        self._has_told = False

    def handleError(self, record: logging.LogRecord) -> None:
        """Say on standard error why lines are lost, the first time."""
        if not self._has_told:
            self._has_told = True
            why = sys.exc_info()[1]
            print(f"kwire: log lines are lost: {self.baseFilename}: {why}", file=sys.stderr)
