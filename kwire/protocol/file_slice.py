"""Record batches that stay in a file: a slice of an open segment file, or several slices.

The records of a fetch response lie in segment files. Their bytes go from the page cache to the
socket without passing through Python: the encoder writes their length and notes their place in the
response, and the connection sends them with ``sendfile``.
"""

from collections.abc import Sequence
from typing import TypeAlias


class FileSlice:
    """``size_bytes`` bytes at ``position`` of the open file ``fd``.

    ``owner`` is the object that keeps ``fd`` open; the slice keeps it alive.
    """

    __slots__ = ("fd", "owner", "position", "size_bytes")

    def __init__(self, fd: int, position: int, size_bytes: int, owner: object) -> None:
        self.fd = fd
        self.position = position
        self.size_bytes = size_bytes
        self.owner = owner

    def __repr__(self) -> str:
        return f"FileSlice(fd={self.fd}, position={self.position}, size_bytes={self.size_bytes})"


class RecordsParts:
    """Record batches in several pieces that follow each other: bytes in memory or file slices."""

    __slots__ = ("parts", "size_bytes")

    def __init__(self, parts: "Sequence[bytes | bytearray | memoryview | FileSlice]") -> None:
        self.parts = parts
        self.size_bytes = sum(
            part.size_bytes if isinstance(part, FileSlice) else len(part) for part in parts
        )

    def __repr__(self) -> str:
        return f"RecordsParts({list(self.parts)!r})"


Records: TypeAlias = bytes | bytearray | memoryview | FileSlice | RecordsParts | None
"""The type of a ``records`` field. A decoder sets a view into the frame; an encoder takes any."""


EncodedResponse: TypeAlias = bytes | list[bytes | FileSlice]
"""A whole response with its size in front, cut where slices of files belong."""
