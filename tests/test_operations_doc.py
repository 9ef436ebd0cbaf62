"""docs/OPERATIONS.md quotes what kwire says, and names and links to what is there."""

import json
import re
import subprocess
import sys
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


def test_the_programs_make_plans_for_more_and_for_fewer_replicas() -> None:
    """From what ``kwire topics describe --json`` prints, for ``kafka-reassign-partitions.sh``."""
    [command] = re.findall(r"^kwire (.+) > topics\.json$", PAGE, re.MULTILINE)
    assert command == "topics describe --internal --json"  # one document with all topics
    rows = [
        {"partition": index, "leader": replicas[0], "replicas": replicas}
        for index, replicas in enumerate([[1, 2, 3], [2, 3, 1], [3, 1, 2], [3]])
    ]
    described = json.dumps([{"name": "t", "internal": False, "partitions": rows}])
    programs = re.findall(r"python3 -c '\n([^']+)' < topics.json > plan.json", PAGE)
    plans = []
    for program in programs:
        run = [sys.executable, "-c", program]
        done = subprocess.run(run, input=described, capture_output=True, text=True, check=True)
        plan = json.loads(done.stdout)
        assert [(row["topic"], row["partition"]) for row in plan["partitions"]] == [
            ("t", index) for index in range(4)
        ]
        plans.append([row["replicas"] for row in plan["partitions"]])
    assert plans == [
        [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3]],
        [[1, 2], [2, 1], [1, 2], [1]],
    ]


def test_examples_of_kafkas_tools_are_complete() -> None:
    """Each command with options names the brokers that it asks."""
    shown = re.findall(r"`(kafka-[a-z-]+\.sh [^`]+)`|^(kafka-[a-z-]+\.sh .+)$", PAGE, re.MULTILINE)
    commands = [one or other for one, other in shown]
    assert len(commands) > 5
    assert [one for one in commands if "--bootstrap-server" not in one] == [
        "kafka-reassign-partitions.sh --generate"  # a mention, which is told not to be used
    ]
