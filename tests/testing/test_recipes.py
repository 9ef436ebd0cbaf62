"""The recipes of docs/TESTING.md, and the README's, run as they stand.

Those of Spark and Java run in their own suites.
"""

import os
import re
import sys

import pytest

from tests.testing.recipes import ROOT, TESTING, recipes

pytest_plugins = ["pytester"]

README = (ROOT / "README.md").read_text(encoding="utf-8")
README_SNIPPETS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_recipes(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the stock clients, each in a file of its own."""
    found = recipes()
    [found["readme"]] = [text for text in README_SNIPPETS if "(kafka):" in text]
    pytester.makepyfile(**{f"test_{name}": text for name, text in found.items()})
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--strict-markers")
    result.assert_outcomes(passed=sum(text.count("def test_") for text in found.values()))


def test_no_snippet_is_left_out() -> None:
    """Every block of code has a name, under which a test runs it."""
    text = TESTING.read_text(encoding="utf-8")
    named = [recipes(kind) for kind in ("recipe", "recipe-of-spark", "recipe-of-java")]
    assert len(re.findall(r"```(?:python|java)\n", text)) == sum(map(len, named))
