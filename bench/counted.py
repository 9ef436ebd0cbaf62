"""A kwire that counts the units of work it spends on requests, for ``bench.prices``.

``KWIRE_COUNTED=FILE python -m bench.counted PYTHON -P -m kwire serve …`` runs the command after
``kwire``. On SIGUSR1 the process replaces the file; it then holds the units as a decimal number.
"""

import os
import signal
import sys
from pathlib import Path
from types import FrameType

from kwire.budget.work import Work

FILE_VARIABLE = "KWIRE_COUNTED"


class Counted:
    """The units of all connections of this process."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._units = 0

    def begin(self) -> None:
        """Count every piece of work from now on."""
        spend, begin_request = Work.spend, Work.begin_request

        def counted_spend(work: Work, units: int) -> bool:
            self._units += units
            return spend(work, units)

        def counted_begin(work: Work, units: int) -> None:
            self._units += units
            begin_request(work, units)

        Work.spend = counted_spend  # type: ignore[method-assign]
        Work.begin_request = counted_begin  # type: ignore[method-assign]
        signal.signal(signal.SIGUSR1, self._tell)

    def _tell(self, _number: int, _frame: FrameType | None) -> None:
        new = self._file.with_suffix(".new")
        new.write_text(str(self._units), encoding="utf-8")
        new.replace(self._file)


def main() -> int:
    """Run kwire."""
    Counted(Path(os.environ[FILE_VARIABLE])).begin()
    sys.argv = sys.argv[sys.argv.index("kwire") :]
    from kwire.cli import main as run

    return run()


if __name__ == "__main__":
    sys.exit(main())
