"""Input of ``kwire produce``: files and standard input as pieces of whole lines.

A piece is what one read gives, cut at the last line feed. So a line that is typed comes at once,
and a large file comes in large pieces. Reading happens in a thread.
"""

import argparse
import os
from collections.abc import AsyncIterator
from typing import NamedTuple

import trio

from kwire.cli.session import CommandError

READ_BYTES = 1024 * 1024
MAX_LINE_BYTES = 64 * 1024 * 1024


class Piece(NamedTuple):
    """Lines without their ends, and where they come from."""

    source: str
    first_line: int
    lines: list[bytes]
    size_bytes: int
    total_bytes: int | None
    """The size of the whole input, if it is known."""


async def inputs(options: argparse.Namespace) -> AsyncIterator[Piece]:
    """The pieces of all inputs; CommandError if one can't be read."""
    for name in options.files or ["-"]:
        try:
            fd = 0 if name == "-" else os.open(name, os.O_RDONLY)
        except OSError as error:
            raise CommandError(f"cannot read {name}: {error.strerror}") from error
        try:
            async for piece in _pieces(fd, name, whole=options.format == "raw"):
                yield piece
        except OSError as error:
            raise CommandError(f"cannot read {name}: {error.strerror}") from error
        finally:
            if fd:
                os.close(fd)


async def _pieces(fd: int, name: str, *, whole: bool) -> AsyncIterator[Piece]:
    source = "standard input" if name == "-" else name
    total = os.fstat(fd).st_size or None
    line = 1
    rest = b""
    while content := await trio.to_thread.run_sync(os.read, fd, READ_BYTES, abandon_on_cancel=True):
        size_bytes = len(content)
        content = rest + content
        if len(content) > MAX_LINE_BYTES + READ_BYTES:
            what = "it" if whole else f"line {line}"
            raise CommandError(f"{source}: {what} is longer than {MAX_LINE_BYTES} bytes")
        cut = 0 if whole else content.rfind(b"\n") + 1
        rest = content[cut:]
        lines = [one.removesuffix(b"\r") for one in content[:cut].split(b"\n")[:-1]]
        yield Piece(source, line, lines, size_bytes, total)
        line += len(lines)
    if rest or whole:
        yield Piece(source, line, [rest], 0, total)
