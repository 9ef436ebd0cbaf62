"""docs/OPERATIONS.md quotes what kwire says, and names and links to what is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "OPERATIONS.md").read_text(encoding="utf-8")


def _texts() -> str:
    """All texts in kwire's sources, with the parts of split literals joined."""
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "kwire").rglob("*.py")]
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(sources))


def _quoted() -> list[str]:
    table = PAGE.partition("## When something is wrong")[2]
    return re.findall(r"^\| `([^`]+)` \|", table, flags=re.MULTILINE)


def test_the_lines_that_are_explained_are_kwires() -> None:
    """Each is part of a text in the sources, so that a search for a line finds its row."""
    texts = _texts()
    assert len(_quoted()) > 10
    assert [line for line in _quoted() if line not in texts] == []


@pytest.mark.parametrize("heading", re.findall(r"\]\(#([\w-]+)\)", PAGE))
def test_links_within_the_page_lead_somewhere(heading: str) -> None:
    """To a heading."""
    headings = re.findall(r"^#+ (.+)$", PAGE, flags=re.MULTILINE)
    assert heading in {title.lower().replace(" ", "-") for title in headings}


@pytest.mark.parametrize("target", re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", PAGE))
def test_links_to_files_lead_somewhere(target: str) -> None:
    """To a page of docs/, or to a file of deploy/."""
    assert (ROOT / "docs" / target).exists()


def test_the_commands_name_files_that_are_there() -> None:
    """What the steps of an installation copy, and the sources of the facts."""
    named = re.findall(r"(?<![\w/])(?:deploy|requirements|tests)/[\w./-]*\w", PAGE)
    assert named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_examples_of_kafkas_tools_are_complete() -> None:
    """Each command with options names the brokers that it asks."""
    shown = re.findall(r"`(kafka-[a-z-]+\.sh [^`]+)`|^(kafka-[a-z-]+\.sh .+)$", PAGE, re.MULTILINE)
    commands = [one or other for one, other in shown]
    assert len(commands) > 3
    assert [one for one in commands if "--bootstrap-server" not in one] == []
