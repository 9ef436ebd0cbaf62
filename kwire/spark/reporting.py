"""How long work says how far it is: a function gets what is done, and how much of all.

The commands show that as a bar (``commands.work_bar``); other callers need not care.
"""

from collections.abc import Callable

Report = Callable[[str, int, int], object]
"""What is being done, how much of it is done, and how much there is; 0 if nobody knows that."""


def silent(what: str, done: int, total: int) -> None:
    """Show nothing."""
