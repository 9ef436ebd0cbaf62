"""The line about a missing package names an extra that there is, and that has the package."""

import re
import tomllib
from pathlib import Path

import pytest

from kwire.config.extras import needs

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
CALL = re.compile(r"\bneeds\(\s*['\"](\w+)['\"],([^)]*)\)")
SAID = [
    (str(path.relative_to(ROOT)), extra, names)
    for path in sorted((ROOT / "kwire").rglob("*.py"))
    for extra, names in CALL.findall(path.read_text(encoding="utf-8"))
]


@pytest.mark.parametrize(("path", "extra", "names"), SAID)
def test_the_extra_has_the_packages(path: str, extra: str, names: str) -> None:
    """Whoever follows the line has what was missing."""
    has = {re.split(r"[<>=\[]", one)[0].lower() for one in EXTRAS[extra]}
    assert {one.lower() for one in re.findall(r"['\"]([\w-]+)['\"]", names)} <= has


def test_the_places_are_found() -> None:
    """Otherwise the test above would look at nothing."""
    assert {extra for _, extra, _ in SAID} >= {"cluster", "security", "cli", "spark", "gssapi"}


def test_nobody_writes_the_command_by_hand() -> None:
    """One function has it, so that it reads the same everywhere."""
    by_hand = [
        str(path.relative_to(ROOT))
        for path in (ROOT / "kwire").rglob("*.py")
        if "pip install -e" in path.read_text(encoding="utf-8") and path.name != "extras.py"
    ]
    assert by_hand == []


def test_how_it_reads() -> None:
    """With one package and with several."""
    assert f"kwire secure {needs('security', 'cryptography')}" == (
        "kwire secure needs the package cryptography, which isn't installed: "
        "pip install -e '.[security]' in a checkout of kwire"
    )
    assert needs("web", "a", "b", "c").startswith(
        "needs the packages a, b and c, which aren't installed: "
    )
