"""What mypyc reads differently from Python must not stand in the modules that it compiles.

Where Python and mypyc differ, only a rule keeps both builds alike; the tests of every module run on
both (``make compiled-tests``).
"""

import ast
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from kwire.build import is_compiled
from kwire.record import varint

ROOT = Path(__file__).parent.parent


def compiled_modules() -> list[Path]:
    """What setup.py lists."""
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "COMPILED_MODULES":
            return [ROOT / name for name in ast.literal_eval(node.value)]
    raise AssertionError("setup.py lists no COMPILED_MODULES")


def own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a function, not those of functions in it."""
    for child in ast.iter_child_nodes(function):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            yield from own_nodes(child)


def test_the_build_is_what_it_says() -> None:
    """A compiled module is no Python file; the list is in order and names files that are there."""
    assert is_compiled() == (not str(varint.__file__).endswith(".py"))
    modules = compiled_modules()
    assert modules == sorted(modules)
    assert all(path.is_file() for path in modules)
    assert ROOT / "kwire/record/varint.py" in modules


@pytest.mark.parametrize("path", compiled_modules(), ids=lambda path: path.stem)
def test_bounds_of_slices_call_nothing(path: Path) -> None:
    """mypyc evaluates them twice where it doesn't know the type of what is cut."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(call)}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Slice)
        for call in ast.walk(node)
        if isinstance(call, ast.Call | ast.Await | ast.NamedExpr | ast.Yield)
        if not ast.unparse(call).startswith("len(")
    ]
    assert wrong == []


@pytest.mark.parametrize("path", compiled_modules(), ids=lambda path: path.stem)
def test_a_name_holds_one_type_of_exception_in_a_function(path: Path) -> None:
    """For mypyc a name has one type in a function: another exception would be a TypeError."""
    wrong = []
    for function in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        types: dict[str, str] = {}
        for node in own_nodes(function):
            if isinstance(node, ast.ExceptHandler) and node.name and node.type:
                kind = ast.unparse(node.type)
                if types.setdefault(node.name, kind) != kind:
                    wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}")
    assert wrong == []


@pytest.mark.parametrize("path", compiled_modules(), ids=lambda path: path.stem)
def test_no_descriptor_is_taken_from_a_file_that_is_let_go(path: Path) -> None:
    """mypyc lets go of a name after its last use: ``use(file.fd)`` may find the file closed."""
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}: {ast.unparse(node)}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).startswith("self._disk.")
        if any(isinstance(part, ast.Attribute) and part.attr == "fd" for part in node.args)
    ]
    assert wrong == []


@pytest.mark.parametrize("compiler", ["/nowhere/cc", "false"])
def test_without_a_compiler_the_build_says_what_to_do(compiler: str) -> None:
    """At once, and in a few lines: one that isn't there, and one that fails."""
    build = subprocess.run(
        [sys.executable, "setup.py", "-q", "bdist_wheel"],
        cwd=ROOT,
        env=os.environ | {"CC": compiler, "KWIRE_COMPILED": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    *_, reason, remedy = build.stderr.splitlines()
    assert build.returncode == 1
    assert compiler in reason
    assert "apt install gcc python3-dev" in remedy
    assert "leave KWIRE_COMPILED out" in remedy
    assert len(build.stdout.splitlines() + build.stderr.splitlines()) < 10
