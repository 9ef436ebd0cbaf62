"""A bar on stderr: the package rich draws it at a terminal; without one or the other nothing does.

If a program prints with a rich Console of its own while the bar is there, it has to give this
Console to the bar. The output of two Consoles on one terminal would be mixed up.
"""

import sys
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.console import Console


class RichBar:
    """One bar with a text of its own: ``column`` is rich's markup, with ``task.fields`` in it.

    ``fields`` are what the text shows at first.
    """

    def __init__(
        self,
        name: str,
        column: str,
        fields: dict[str, str],
        *,
        is_on: bool,
        console: "Console | None",
    ) -> None:
        self.name = name
        self.is_on = is_on
        self._column = column
        self._fields = fields
        self._console = console
        self._progress: Any = None
        self._task: Any = None

    @property
    def is_drawn(self) -> bool:
        """Whether somebody sees it."""
        return self._progress is not None

    def __enter__(self) -> Self:
        is_terminal = self._console.is_terminal if self._console else sys.stderr.isatty()
        if self.is_on and is_terminal:
            self._progress = self._made()
        if self._progress is not None:
            self._progress.start()
            self._task = self._progress.add_task(self.name, total=None, **self._fields)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Take the bar away."""
        if self._progress is not None:
            self._progress.stop()
            self._progress = None

    def restart(self, what: str) -> None:
        """Begin with something else, for which the time that is left is counted anew."""
        self._progress.reset(self._task, description=f"{self.name}: {what}")

    def draw(self, done: int, total: int | None, **fields: str) -> None:
        """Draw how much is done; the total is None while nobody knows it."""
        self._progress.update(self._task, completed=done, total=total, refresh=True, **fields)

    def _made(self) -> Any:
        """A bar of rich; None without rich."""
        try:
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
        except ImportError:
            return None
        return Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn(self._column),
            TimeRemainingColumn(),
            console=self._console or Console(stderr=True),
            transient=True,
        )
