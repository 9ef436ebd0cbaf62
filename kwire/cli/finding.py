"""A finding of ``kwire doctor``: its subject, why it matters, and what to do."""

from typing import NamedTuple

GOOD = "good"
NOTE = "note"
ACT = "act"
"""How serious a finding is: good, worth knowing, or the user has to act."""


class Finding(NamedTuple):
    """The result of one check. ``why`` and ``remedy`` are empty if it is good."""

    level: str
    what: str
    why: str = ""
    remedy: str = ""
