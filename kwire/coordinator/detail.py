"""Notes about groups for those who look closely; the log shows them at level DEBUG.

Most groups of one member belong to a program that runs for a moment. Such a program leaves one line
at level INFO: that its group has a member.

This module isn't compiled: mypyc can't extend ``str``.
"""


class Detail(str):
    """A note for the log at level DEBUG."""

    __slots__ = ()
