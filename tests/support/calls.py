"""How much work a call is, as a count that is the same on every machine."""

import sys
from collections.abc import Callable
from types import FrameType


def calls_within(function: Callable[[], object]) -> int:
    """How many Python functions are called while ``function`` runs."""
    calls = 0

    def note(frame: FrameType, event: str, arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(before)
    return calls
