"""What ``kwire doctor`` finds: what it is, why it matters, and what to do."""

from typing import NamedTuple

GOOD = "good"
NOTE = "note"
ACT = "act"
"""How serious it is: nothing, worth knowing, or something has to be done."""


class Finding(NamedTuple):
    """One thing that was looked at. ``why`` and ``remedy`` are empty if it is good."""

    level: str
    what: str
    why: str = ""
    remedy: str = ""
