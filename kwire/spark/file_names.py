"""The names of the files sink: topic, partition and offsets, so that a name says what a file holds.

Format, below the sink's path::

    topic=[@]<topic>/partition=<n>/<first>-<end>[-i<incarnation>][-<part>].<parquet|json|json.gz|…>

Rules:

- ``first`` is the first offset of the file, and ``end`` is the offset after its last one. Both have
  20 digits, so that the order of names is the order of offsets. Some of these offsets may have no
  row, such as those of transaction markers.
- ``incarnation`` counts how often the topic was deleted and created again. The new topic has other
  records at the same offsets.
- If the rows of a range are in several files, their names have ``part`` 0, 1, ….
- The directories are named as Hive names them, so readers get the columns topic and partition.
  Readers guess a column's type from the names, and would take a topic ``0042`` for the number 42.
  So a topic that looks like a number, a time, a truth or nothing gets an ``@`` before it, which no
  topic's name can have: ``topic=@0042``. Only such a name of 249 characters has no room for it.
- Names that begin with ``_`` or ``.`` are hidden from readers: files being written, directories
  being exchanged, locks.
"""

import re
from typing import NamedTuple

EXTENSIONS = ("parquet", "json")

_NAME = re.compile(
    r"(?:.*/)?topic=@?(?P<topic>[^/]+)/partition=(?P<partition>\d+)/"
    r"(?P<first>\d{20})-(?P<end>\d{20})(?:-i(?P<incarnation>\d+))?(?:-(?P<part>\d+))?"
    r"\.(?P<extension>parquet|json(?:\.[a-z0-9]+)?)"
)


MARK = "@"
"""What stands before a topic in a directory's name if readers wouldn't take it for a text."""

_NO_TEXT = re.compile(
    r"""
    [-.]*\d[-.\d_]*(?:e-?\d+)?[dfl]?         # a number, also in Java's and Python's forms
    | -?0[xbo][\da-f_]*\.?[\da-f]*(?:p-?\d+)?[dfl]?
    | [-\d]*\d[-.\d_tz]*                     # a date or a time
    | -?(?:nan|inf|infinity)[df]? | true | false | null | none | n\.?a | nat
    | __hive_default_partition__
    """,
    re.VERBOSE | re.IGNORECASE | re.ASCII,
)
_MAX_NAME_BYTES = 255
"""How long the name of a directory may be on local disks."""


class FileName(NamedTuple):
    """The parts of a file's name; ``str`` gives the path of the file below the sink's path."""

    topic: str
    partition: int
    first: int
    end: int
    part: int | None = None
    extension: str = "parquet"
    incarnation: int = 0

    @property
    def directory(self) -> str:
        """The partition's directory below the sink's path."""
        return directory_of(self.topic, self.partition)

    @property
    def name(self) -> str:
        """The name within the partition's directory."""
        incarnation = f"-i{self.incarnation}" if self.incarnation else ""
        part = "" if self.part is None else f"-{self.part}"
        return f"{self.first:020d}-{self.end:020d}{incarnation}{part}.{self.extension}"

    def __str__(self) -> str:
        return f"{self.directory}/{self.name}"


def directory_of(topic: str, partition: int) -> str:
    """The directory of a partition below the sink's path."""
    return f"{topic_directory(topic)}/partition={partition}"


def topic_directory(topic: str) -> str:
    """The directory of a topic below the sink's path."""
    has_room = len(topic) < _MAX_NAME_BYTES - len("topic=")
    return f"topic={MARK if _NO_TEXT.fullmatch(topic) and has_room else ''}{topic}"


def parse(path: str) -> FileName | None:
    """The parts of the name at the end of a path; None for names of another kind."""
    found = _NAME.fullmatch(path)
    if found is None:
        return None
    part = found["part"]
    first, end = int(found["first"]), int(found["end"])
    if first >= end:
        return None
    return FileName(
        found["topic"],
        int(found["partition"]),
        first,
        end,
        None if part is None else int(part),
        found["extension"],
        int(found["incarnation"] or 0),
    )


def is_hidden(name: str) -> bool:
    """Whether readers pass over a file or directory with this name, as Spark and pyarrow do."""
    return name.startswith(("_", "."))
