"""The file of ``kwire serve --log-file``, and its older files.

Rules:

- When the file is full it is renamed to ``FILE.1``, ``FILE.1`` to ``FILE.2``, and so on. The oldest
  file is removed.
- A file that can't be renamed keeps growing, and standard error says so once. kwire tries to rename
  it again whenever it has grown by the size of a full file.
- A file that can't be written, for instance on a full disk, doesn't stop the broker. Standard error
  says so once.
"""

import logging
import os
import sys
from logging.handlers import RotatingFileHandler


class LogFile(RotatingFileHandler):
    """Writes lines to the file at ``path``; keeps ``kept`` older files. OSError at once."""

    def __init__(self, path: str, max_bytes: int, kept: int) -> None:
        super().__init__(path, maxBytes=max_bytes, backupCount=kept, encoding="utf-8")
        self._has_told = self._has_told_of_growth = False
        self._full_bytes = max_bytes

    def shouldRollover(self, record: logging.LogRecord) -> bool:
        """Whether the file is full, and wasn't just now found to be stuck."""
        if not super().shouldRollover(record):
            return False
        is_stuck = self._full_bytes > self.maxBytes
        return not is_stuck or os.stat(self.baseFilename).st_size >= self._full_bytes

    def doRollover(self) -> None:
        """Rename the files and begin a new file; continue in the old file if that fails."""
        try:
            super().doRollover()
            self._full_bytes = self.maxBytes
        except OSError as error:
            self.stream = self._open()
            self._full_bytes = os.stat(self.baseFilename).st_size + self.maxBytes
            if not self._has_told_of_growth:
                self._has_told_of_growth = True
                said = f"cannot be renamed, so it grows on: {error}"
                print(f"kwire: {self.baseFilename} {said}", file=sys.stderr)

    def handleError(self, record: logging.LogRecord) -> None:
        """Say on standard error why lines are lost, the first time."""
        if not self._has_told:
            self._has_told = True
            why = sys.exc_info()[1]
            print(f"kwire: log lines are lost: {self.baseFilename}: {why}", file=sys.stderr)
