"""Record batches that are not in memory: a stretch of an open file, or several stretches.

A fetch answers with bytes that lie in segment files. They go from the page cache to the socket
without passing through Python: the encoder writes their length and notes where they belong, and
the transport sends them with ``sendfile`` (or reads them, where TLS is in the way).
"""

from collections.abc import Sequence
from typing import TypeAlias


class FileSlice:
    """``size_bytes`` bytes at ``position`` of the open file ``fd``.

    ``owner`` is whatever must stay alive for ``fd`` to stay open while the slice is in use.
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
"""What a ``records`` field holds: a view into the frame when decoded, any of these to encode."""
