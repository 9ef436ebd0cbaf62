"""A progress bar, where there is a terminal, and lines above it."""

from collections.abc import Callable, Iterable

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn


def bar(
    what: str, total: int, steps: Iterable[None], say: Callable[[], Iterable[str]] = tuple
) -> None:
    """Go through the steps, and print what there is to say after each."""
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn(what), TimeRemainingColumn())
    with Progress(*columns) as progress:
        task = progress.add_task(what, total=total)
        for _ in steps:
            progress.advance(task)
            for line in say():
                progress.console.print(line, markup=False, highlight=False, soft_wrap=True)
