"""The seeded bugs: each is one small change, and what a test can't see is left alone."""

import json
from pathlib import Path

import pytest

from tests.mutants.__main__ import EQUIVALENT, Equivalent, Results, choose, report
from tests.mutants.mutations import is_python, mutations_of
from tests.mutants.session import ROOT

SOURCE = '''
"""A module of 3 lines."""
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    SIZE = 1
def f(a: "int" = 5, b: list[0] = ()) -> "1":
    """Says 7."""
    assert a == 4
    log.warning("gone: %s", 9)
    {line}
'''


def changed(line: str) -> set[str]:
    """What the mutations make of a line."""
    text = SOURCE.replace("{line}", line)
    found = set()
    for mutation in mutations_of("a.py", text):
        made = mutation.apply(text)
        assert is_python("a.py", made), made
        before, after = text.splitlines(), made.splitlines()
        [differs] = [
            n for n, (old, new) in enumerate(zip(before, after, strict=True)) if old != new
        ]
        assert differs + 1 == mutation.line
        found.add(after[differs].strip())
    return found


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("return a == b", {"return a != b"}),
        ("return (a) < (b)", {"return (a) >= (b)", "return (a) <= (b)"}),
        ("return a is not b", {"return a is b"}),
        ("return a not in b", {"return a in b"}),
        ("return a and b or f", {"return a or b or f", "return a and b and f"}),
        ("return not a", {"return  a"}),
        ("return a + b", {"return a - b"}),
        ("return 'ä' + b", set()),
        ("return 'ä', a - b", {"return 'ä', a + b"}),
        ("return b[0]", {"return b[-1]"}),
        ("return b[-1]", {"return b[0]"}),
        ("return unpack(a)[0]", set()),
        ("return True", {"return False"}),
        ("a.b = b", {"pass"}),
        ("b.append(a)", {"pass"}),
        ("log.info('%s', a)", set()),
        ("_log.error('%s', a)", set()),
        ("log.append(a)", {"pass"}),
    ],
)
def test_a_line_has_these_bugs(line: str, wanted: set[str]) -> None:
    """And a default value is one of its own: the only other thing to change in that source."""
    defaults = {'def f(a: "int" = 6, b: list[0] = ()) -> "1":'}
    assert changed(line) == wanted | defaults


def test_a_statement_of_several_lines_leaves_its_lines() -> None:
    """Functions behind it are found by their first lines."""
    text = "def f():\n    g(\n        h,\n    )  # why\n\ndef i():\n    pass\n"
    [made] = [m.apply(text) for m in mutations_of("a.py", text)]
    assert made == "def f():\n    pass\n\n  # why\n\ndef i():\n    pass\n"
    assert is_python("a.py", made)


def test_a_bug_knows_the_function_around_it() -> None:
    """The recorded tests name functions by their first line, which may be a decorator."""
    text = "A = 1\n@d(2)\ndef f(a=3):\n    def g():\n        return 4\n    return 5\n"
    places = {text[m.start : m.end]: m.function for m in mutations_of("a.py", text)}
    assert places == {"1": 0, "3": 0, "4": 4, "5": 2}


def test_the_seed_chooses_the_bugs() -> None:
    """The same ones each time; the kinds take turns, however many there are of each."""
    texts = {"a.py": "x = [1, 2, 3, 4, 5, 6, 7, 8, 9]\ny = x == 1 or x\n"}
    chosen = choose(texts, 4, seed=1)
    assert chosen == choose(texts, 4, seed=1) != choose(texts, 4, seed=2)
    assert len(chosen) == 4
    assert {mutation.kind for mutation in choose(texts, 99, seed=1)} == {
        "constant changed",
        "comparison turned round",
        "and/or",
    }


def test_every_room_has_its_share() -> None:
    """A large room would have most of the bugs otherwise."""
    texts = {"kwire/a/b.py": f"x = [{'1, ' * 500}]\n", "kwire/c.py": "x = [1, 2, 3, 4, 5]\n"}
    paths = [mutation.path for mutation in choose(texts, 100, seed=1)]
    assert paths.count("kwire/c.py") == 5


def test_an_equivalent_bug_counts_neither_as_caught_nor_as_a_survivor(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is known by its file and its line, wherever in the file that is."""
    text = "def f(x):\n    a = x == 1\n    b = x > 2\n    return (a,\n        b)\n"
    bugs = mutations_of("kwire/a/b.py", text)
    file = tmp_path / "equivalent.json"
    known = {"kwire/a/b.py": {"b = x >= 2": "x is never 2"}, "kwire/b.py": {"pass": "?"}}
    file.write_text(json.dumps(known))
    equivalent = Equivalent(file)
    why = {bug.changed_line(text): equivalent.why(bug, text) for bug in bugs}
    assert why["b = x >= 2"] == "x is never 2"
    assert not any(reason for line, reason in why.items() if line != "b = x >= 2")
    results = Results(tmp_path / "results.jsonl")
    for bug in bugs:
        missed = bug.kind == "comparison turned round"
        results.add(bug.key(text), "" if missed else "FAILED tests/log/test_a.py::test_b")
    results.read()
    assert report(bugs, {"kwire/a/b.py": text}, results, equivalent) == 2
    said = capsys.readouterr().out
    assert f"| together | {len(bugs)} | 1 | 0 | {len(bugs) - 3} | 2 | 0 |\n" in said
    assert f"{len(bugs) - 3} of {len(bugs) - 1} bugs were caught" in said


def test_what_is_called_equivalent_is_a_bug_that_can_be_seeded() -> None:
    """An entry for a line that isn't there any more explains nothing."""
    for path, reasons in Equivalent(EQUIVALENT).known.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        made = {mutation.changed_line(text) for mutation in mutations_of(path, text)}
        assert set(reasons) <= made, path
