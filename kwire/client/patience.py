"""Tells the user of a client what an operation waits for, if it waits for longer than a moment.

Rules:

- The first second passes without a word: an election is over sooner.
- After that second, the next failure is told once.
"""

from collections.abc import Callable, Iterable

import trio

from kwire.errors import ErrorCode, KafkaError

SILENT_S = 1.0
_SHOWN = 3


class Patience:
    """The failures of one operation that is tried again; ``tell`` takes one line about them.

    The second begins with the first failure, or at ``since_s``.
    """

    __slots__ = ("_has_told", "_since_s", "_tell")

    def __init__(self, tell: Callable[[str], object], since_s: float | None = None) -> None:
        self._tell = tell
        self._since_s = since_s
        self._has_told = False

    def failed(self, reasons: Iterable[Exception]) -> None:
        """The operation has failed for these reasons, and is about to be tried again."""
        now_s = trio.current_time()
        self._since_s = now_s if self._since_s is None else self._since_s
        if self._has_told or now_s - self._since_s < SILENT_S:
            return
        self._has_told = True
        texts = list(dict.fromkeys(_text(reason) for reason in reasons))
        more = f" and {len(texts) - _SHOWN} more" if len(texts) > _SHOWN else ""
        self._tell(f"{', '.join(texts[:_SHOWN])}{more}")


def _text(reason: Exception) -> str:
    if not isinstance(reason, KafkaError) or not reason.message:
        return str(reason)
    if reason.code == ErrorCode.LEADER_NOT_AVAILABLE:
        return reason.message  # it says so itself
    return f"{reason.message}: {reason.code.name}"
