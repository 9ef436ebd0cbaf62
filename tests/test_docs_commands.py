"""Every ``kwire`` command that README and docs show is one that the command line understands."""

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.cli.commands import COMMANDS
from kwire.cli.parsing import make_parser

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
PLACEHOLDERS = ("…", "[", "<")


def commands_of(page: Path) -> Iterator[str]:
    """The commands in the page's blocks and in its inline code."""
    text = page.read_text(encoding="utf-8")
    for block in re.findall(r"```[a-z]*\n(.*?)```", text, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            for part in line.split("|"):
                if re.match(r"\s*(\$ )?kwire [a-z]", part):
                    yield re.split(r"\s#|\s{3,}|\s&$", part.strip().removeprefix("$ "))[0]
    yield from re.findall(r"`(kwire [a-z][^`]*)`", text)


SHOWN = sorted(
    {
        command
        for page in PAGES
        for command in commands_of(page)
        if command.split()[1] in COMMANDS and not any(one in command for one in PLACEHOLDERS)
    }
)


def test_there_are_commands_to_try() -> None:
    """The patterns above find them."""
    assert len(SHOWN) > 30


@pytest.mark.parametrize("command", SHOWN)
def test_a_command_that_is_shown_exists(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Its options and arguments are those of today; a mention may leave out the last arguments."""
    words = shlex.split(command)[1:]
    parser, _ = make_parser(words[:1])
    try:
        _, unknown = parser.parse_known_args(words)
    except SystemExit as ended:
        if ended.code == 0:
            return  # --help
        said = capsys.readouterr().err
        assert "are required" in said or "expected one argument" in said, said
        return
    assert unknown == []
