"""Notes about groups that the broker's log shows at level DEBUG only.

Most groups with one member belong to a program that runs for a moment. At level INFO, such a
program leaves only one line, which says that its group has a member.
"""


class DebugNote(str):
    """A note for the log at level DEBUG."""

    __slots__ = ()
