"""Counting the passes of the event loop, which is how long others wait."""

from collections.abc import Callable
from types import TracebackType

import trio


class Passes(trio.abc.Instrument):
    """A context manager in which passes are counted; ``at_end`` is called at the end of each."""

    def __init__(self, at_end: Callable[[], object] = lambda: None) -> None:
        self.count = 0
        self._at_end = at_end

    def before_io_wait(self, timeout: float) -> None:
        """A pass is over."""
        self.count += 1
        self._at_end()

    def __enter__(self) -> "Passes":
        trio.lowlevel.add_instrument(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        trio.lowlevel.remove_instrument(self)
