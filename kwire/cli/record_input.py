"""Input of ``kwire produce``: files and standard input as pieces of whole lines.

A piece is the result of one read, cut at the last line feed. So a typed line comes at once, and a
large file comes in large pieces. Reading happens in a thread.

A line ends with LF or CRLF, and the last one may end with the input. One CR before each of these
ends doesn't belong to the line; any other CR does. ``--format raw`` keeps every byte.
"""

import argparse
import os
from collections.abc import Awaitable, Callable
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


async def read_inputs(
    options: argparse.Namespace, take: Callable[[Piece], Awaitable[None]]
) -> None:
    """Give every piece of all inputs to ``take``; CommandError if one can't be read."""
    for name in options.files or ["-"]:
        try:
            fd = 0 if name == "-" else os.open(name, os.O_RDONLY)
        except OSError as error:
            raise CommandError(f"cannot read {name}: {error.strerror}") from error
        try:
            await _read(fd, name, take, whole=options.format == "raw")
        finally:
            if fd:
                os.close(fd)


async def _read(
    fd: int, name: str, take: Callable[[Piece], Awaitable[None]], *, whole: bool
) -> None:
    source = "standard input" if name == "-" else name
    total = os.fstat(fd).st_size or None
    line = 1
    rest = b""
    while content := await _some(fd, source):
        size_bytes = len(content)
        content = rest + content
        if len(content) > MAX_LINE_BYTES + READ_BYTES:
            what = "it" if whole else f"line {line}"
            raise CommandError(f"{source}: {what} is longer than {MAX_LINE_BYTES} bytes")
        cut = 0 if whole else content.rfind(b"\n") + 1
        rest = content[cut:]
        lines = [one.removesuffix(b"\r") for one in content[:cut].split(b"\n")[:-1]]
        await take(Piece(source, line, lines, size_bytes, total))
        line += len(lines)
    if rest or whole:
        last = rest if whole else rest.removesuffix(b"\r")
        await take(Piece(source, line, [last], 0, total))


async def _some(fd: int, source: str) -> bytes:
    """The result of one read; empty at the end."""
    try:
        return await trio.to_thread.run_sync(os.read, fd, READ_BYTES, abandon_on_cancel=True)
    except OSError as error:
        raise CommandError(f"cannot read {source}: {error.strerror}") from error
