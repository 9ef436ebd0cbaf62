"""Detailed notes about groups, which the log shows at level DEBUG.

Most groups with one member belong to a program that runs for a moment. At level INFO, such a
program leaves only one line, which says that its group has a member.
"""


class Detail(str):
    """A note for the log at level DEBUG."""

    __slots__ = ()
