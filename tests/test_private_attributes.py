"""Tests pin behaviour, not insides.

Few of them read the private attributes of an object. A test asks a broker over the protocol
(``tests/support``), or a class by its public methods. A file of tests that can't has a comment,
``# Private attributes: `` and the reason. The files in ``tests/private_attributes.txt`` were there
before this rule; the list only gets shorter.

Few of them put something of their own in the place of a function or method of kwire's. A test gives
a constructor what it takes (a disk, a clock), puts something before a store (``sieve``), or changes
what the system and libraries give. Limits, which are constants, may be made small by every test.
``tests/stand_ins.txt`` has the files that can't, each with what its stand-ins are for.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LISTED = ROOT / "tests" / "private_attributes.txt"
STAND_INS = ROOT / "tests" / "stand_ins.txt"
REASON = re.compile(r"^# Private attributes: \S", re.MULTILINE)
MOST_WITH_A_REASON = 20

PUBLIC = {"_replace", "_asdict", "_fields", "_make", "_exit"}
"""Names of the standard library that have an underscore and are documented."""

BY_NAME = {"setattr", "getattr", "hasattr", "delattr"}
"""Functions that are given an attribute's name, those of ``monkeypatch`` among them."""

CLIENTS_ERRORS = "KafkaError"
"""Has the client's own error codes in confluent_kafka, as ``KafkaError._PARTITION_EOF``."""

FOLDERS = (
    "tests",
    "compat_tests",
    "spark_tests",
    "browser_tests",
    "container_tests",
    "install_tests",
    "ecosystem_tests",
)

MAY_HAVE_SOME = re.compile(r"\.__?[a-z]|import[^\n]* _[a-z]|attr\(|^ {4}_[a-z]\w*,$", re.MULTILINE)
"""A file without any of these reads no private attribute, and needs no syntax tree."""


def is_private(name: str) -> bool:
    """Whether some part of ``a.b.c`` is private."""
    return any(
        part.startswith("_") and not part.startswith("__") and part not in PUBLIC
        for part in name.split(".")
    )


def private_attributes(source: str) -> Iterator[tuple[int, str]]:
    """The line and name of each private attribute that isn't of the code's own class."""
    tree = ast.parse(source if MAY_HAVE_SOME.search(source) else "")
    yield from _inherited(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr == "__dict__":
            yield node.lineno, node.attr
        elif isinstance(node, ast.Attribute) and is_private(node.attr):
            if not _is_its_own(node.value) and _name_of(node.value) != CLIENTS_ERRORS:
                yield node.lineno, node.attr
        elif isinstance(node, ast.ImportFrom):
            yield from ((node.lineno, one.name) for one in node.names if is_private(one.name))
        elif isinstance(node, ast.Call) and _name_of(node.func) in BY_NAME:
            for one in () if _is_its_own(node.args[0]) else node.args:
                if isinstance(one, ast.Constant) and is_private(str(one.value)):
                    yield node.lineno, str(one.value)


def _inherited(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The private attributes of ``self`` that a class has from one of kwire's."""
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    from_kwire = [node for node in imports if f"{node.module}.".startswith("kwire.")]
    kwires = {one.asname or one.name for node in from_kwire for one in node.names}
    own: dict[str, set[str]] = {}
    for cls in [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]:
        bases = {ast.unparse(base).partition(".")[0].partition("[")[0] for base in cls.bases}
        functions = ast.FunctionDef, ast.AsyncFunctionDef
        mine = [n for n in ast.walk(cls) if isinstance(n, ast.Attribute) and _is_its_own(n.value)]
        own[cls.name] = {
            *(node.name for node in cls.body if isinstance(node, functions)),
            *(node.attr for node in mine if isinstance(node.ctx, ast.Store)),
            *(name for base in bases for name in own.get(base, ())),
        }
        if bases & kwires:
            kwires.add(cls.name)
            inherited = [node for node in mine if node.attr not in own[cls.name]]
            yield from ((node.lineno, node.attr) for node in inherited if is_private(node.attr))


def _is_its_own(owner: ast.expr) -> bool:
    """Whether an expression is the object whose class the code belongs to."""
    if isinstance(owner, ast.Call):
        return _name_of(owner.func) == "super"
    return isinstance(owner, ast.Name) and owner.id in ("self", "cls")


def _name_of(function: ast.expr) -> str:
    return getattr(function, "attr", None) or getattr(function, "id", "")


@pytest.mark.parametrize(
    "source",
    [
        "x._a",
        "x.y()._a.b",
        "monkeypatch.setattr(x, '_a', 1)",
        "monkeypatch.setattr('x._a.b', 1)",
        "getattr(x, '_a')",
        "from x import _a",
        "from x import (\n    _a,\n)",
        "x.__dict__['_a']",
        "from kwire.x import X\nclass Y(X):\n    def f(self): self._a()",
        "from kwire import x\nclass Y(x.X): pass\nclass Z(Y):\n    def f(self): self._a()",
    ],
)
def test_private_attributes_are_seen(source: str) -> None:
    """However a file reaches for them."""
    assert list(private_attributes(source))


@pytest.mark.parametrize(
    "source",
    [
        "self._a = cls._b",
        "super()._a()",
        "getattr(self, '_a')",
        "x.a",
        "x.__name__",
        "row._replace(a=1)",
        "'x._a'",
        "_a = 1",
        "x('_a')",
        "from kwire.x import X\nclass Y(X):\n    def f(self): self._a = self._a",
        "from kwire.x import X\nclass Y(X):\n    def _a(self): self._a()",
        "from x import X\nclass Y(X):\n    def f(self): self._a()",
    ],
)
def test_what_is_public_or_its_own(source: str) -> None:
    """A class reads its own attributes; a text is no attribute."""
    assert not list(private_attributes(source))


def test_tests_pin_behaviour() -> None:
    """A file of tests that reads private attributes says why."""
    found = {}
    reasons = []
    for path in sorted(one for name in FOLDERS for one in (ROOT / name).rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        private = [f"{line}: {name}" for line, name in private_attributes(source)]
        name = str(path.relative_to(ROOT))
        if REASON.search(source):
            assert private, f"{name} gives a reason for nothing"
            reasons.append(name)
        elif private:
            found[name] = private
    listed = LISTED.read_text(encoding="utf-8").split()
    assert listed == sorted(set(listed))
    wrong = [f"{name}:{one}" for name in set(found) - set(listed) for one in found[name]]
    assert not wrong, "\n".join(sorted(wrong))
    assert not set(listed) - set(found), "these can leave the list"
    assert len(reasons) <= MOST_WITH_A_REASON, reasons


def stand_ins(source: str) -> Iterator[tuple[int, str]]:
    """The line and name of each function or method of kwire's that ``setattr`` replaces."""
    tree = ast.parse(source) if "setattr(" in source else ast.Module([], [])
    imported = {
        one.asname or one.name: f"{node.module}.{one.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and f"{node.module}.".startswith("kwire.")
        for one in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name_of(node.func) == "setattr":
            name = _replaced(node.args, imported)
            if name.startswith("kwire.") and not name.rpartition(".")[2].isupper():
                yield node.lineno, name


def _replaced(arguments: list[ast.expr], imported: dict[str, str]) -> str:
    """The whole name of an attribute of a module or class that is imported; "" for others."""
    place, name, *_ = arguments
    if isinstance(place, ast.Constant):
        return str(place.value)
    owner, dot, rest = ast.unparse(place).partition(".")
    last = name.value if isinstance(name, ast.Constant) else "?"
    return f"{imported[owner]}{dot}{rest}.{last}" if owner in imported else ""


@pytest.mark.parametrize(
    "line",
    [
        "monkeypatch.setattr('kwire.a.b', f)",
        "monkeypatch.setattr(a, 'b', f)",
        "monkeypatch.setattr(a.B, 'c', f)",
        "monkeypatch.setattr(a, name, f)",
    ],
)
def test_stand_ins_are_seen(line: str) -> None:
    """By the name in one piece, or by what was imported."""
    assert list(stand_ins(f"from kwire import a\n{line}"))


@pytest.mark.parametrize(
    "line",
    [
        "monkeypatch.setattr(a, 'MOST', 1)",
        "monkeypatch.setattr('kwire.a.MOST', 1)",
        "monkeypatch.setattr(os, 'fsync', f)",
        "monkeypatch.setattr('gc.collect', f)",
        "monkeypatch.setattr(self.disk, 'sync', f)",
    ],
)
def test_what_is_no_stand_in(line: str) -> None:
    """A limit, a part of the system, and what the test has made itself."""
    assert not list(stand_ins(f"from kwire import a\n{line}"))


def test_few_tests_have_stand_ins() -> None:
    """They would have to be rewritten with what they replace."""
    reasons = dict(line.split(": ", 1) for line in STAND_INS.read_text("utf-8").splitlines())
    assert list(reasons) == sorted(reasons)
    found = {}
    for path in sorted(one for name in FOLDERS for one in (ROOT / name).rglob("*.py")):
        replaced = [f"{line}: {name}" for line, name in stand_ins(path.read_text("utf-8"))]
        if replaced:
            found[str(path.relative_to(ROOT))] = replaced
    wrong = [f"{name}:{one}" for name in set(found) - set(reasons) for one in found[name]]
    assert not wrong, "\n".join(sorted(wrong))
    assert not set(reasons) - set(found), "these can leave the list"
