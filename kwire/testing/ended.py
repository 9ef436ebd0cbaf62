"""Brokers that start and end with a ``with`` block, and reports of those that end with a failure.

A broker in a ``with`` block of a test is gone when pytest reports the failure, so it leaves its
report here. The plugin empties the list before each test.
"""

from abc import abstractmethod
from types import TracebackType
from typing import Self

REPORTS: list[str] = []


class EndsWithBlock:
    """Brokers of a test that start with a ``with`` block and end with it.

    An error that ends the block is raised; that of a broker which then fails, too, is a note of it.
    """

    @abstractmethod
    def start(self) -> Self:
        """Start, and wait until all is ready."""

    @abstractmethod
    def stop(self) -> object:
        """End; raises the error of a broker that has failed."""

    @abstractmethod
    def report(self) -> str:
        """What a failing test shows."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is None:
            self.stop()
            return
        REPORTS.append(self.report())
        try:
            self.stop()
        except Exception as own:
            error.add_note(f"a broker failed too: {own!r}")
