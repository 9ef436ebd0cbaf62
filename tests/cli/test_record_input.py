"""Input of ``kwire produce``: what is a line."""

import argparse
from pathlib import Path

import pytest

from kwire.cli.record_input import Piece, read_inputs


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        (b"a\r\nb\r", [b"a", b"b"]),
        (b"a\nb\r\n", [b"a", b"b"]),
        (b"a\r\r\nb\rc\n", [b"a\r", b"b\rc"]),
        (b"a\r\n\r\n", [b"a", b""]),
        (b"", []),
    ],
)
async def test_lines_end_with_lf_or_crlf_or_the_input(
    tmp_path: Path, content: bytes, lines: list[bytes]
) -> None:
    """One CR before an end belongs to the end, also in the last line; raw input has no lines."""
    path = tmp_path / "input"
    path.write_bytes(content)
    found: list[bytes] = []

    async def take(piece: Piece) -> None:
        found.extend(piece.lines)

    await read_inputs(argparse.Namespace(files=[str(path)], format="line"), take)
    assert found == lines
    found.clear()
    await read_inputs(argparse.Namespace(files=[str(path)], format="raw"), take)
    assert found == [content]
