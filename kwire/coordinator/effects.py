"""What an operation of a coordinator leads to: records to write, and who is answered then."""

from collections.abc import Hashable
from typing import Any, TypeAlias

from kwire.coordinator.records import CoordinatorRecord

Waiter: TypeAlias = Hashable
"""Whoever waits for a reply; the runtime knows what it stands for."""


class Effects:
    """Collects what operations lead to.

    ``records`` are to be written first; ``replies`` are due after that, and become errors when the
    records can't be written.
    """

    __slots__ = ("records", "replies")

    def __init__(self) -> None:
        self.records: list[CoordinatorRecord] = []
        self.replies: list[tuple[Waiter, Any]] = []

    def reply(self, waiter: Waiter, response: Any) -> None:
        """Answer somebody."""
        self.replies.append((waiter, response))
