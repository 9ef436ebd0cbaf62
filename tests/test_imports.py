"""What a module imports from another module of this repository is there.

Some folders need programs that the unit tests don't have: containers, a browser, Spark. A name
that was moved or renamed would be missed there only when somebody runs them.
"""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
OWN = {path.parent.name for path in ROOT.glob("*/__init__.py")} | {"tests", "conftest"}
FOLDERS = sorted(OWN - {"kwire", "tests", "conftest"})
"""What neither mypy looks at nor the unit tests import."""


def place_of(module: str) -> Path | None:
    """The file of a module, or the folder of a package without one."""
    path = ROOT.joinpath(*module.split("."))
    found = (path.with_suffix(".py"), path / "__init__.py", path)
    return next((one for one in found if one.exists()), None)


@cache
def names_of(file: Path) -> set[str]:
    """What a module binds, wherever it does: also in a branch, and what it imports itself."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.ClassDef(name=name):
                found.add(name)
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.Import(names=names) | ast.ImportFrom(names=names):
                found.update((one.asname or one.name).partition(".")[0] for one in names)
    return found


def binds(place: Path, name: str) -> bool:
    """Whether a module has this name, or answers for any."""
    return place.is_file() and bool(names_of(place) & {name, "__getattr__"})


def missing(text: str) -> Iterator[str]:
    """Each import of this text that names no module of the repository, or nothing in one."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            asked = [(one.name, "") for one in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            asked = [(node.module, one.name) for one in node.names]
        else:
            continue
        for module, name in asked:
            if module.partition(".")[0] not in OWN:
                continue
            place = place_of(module)
            if place is None:
                yield f"{module} isn't there"
            elif name and not (place_of(f"{module}.{name}") or binds(place, name)):
                yield f"{module} has no {name}"


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_import_of_our_own_is_there(folder: str) -> None:
    """In every folder that the unit tests don't run."""
    files = [file for file in (ROOT / folder).rglob("*.py") if "/." not in str(file)]
    found = {
        f"{file.relative_to(ROOT)}: {what}"
        for file in files
        for what in missing(file.read_text(encoding="utf-8"))
    }
    assert not found


def test_what_is_gone_is_named() -> None:
    """A module, and a name in a module that is there."""
    text = "import tests.gone\nfrom tests.support.ports import free_port, local_port\n"
    assert list(missing(text)) == [
        "tests.gone isn't there",
        "tests.support.ports has no local_port",
    ]
    assert not list(missing("import trio\nfrom tests.support import ports\nfrom . import x\n"))
