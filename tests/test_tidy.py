"""What a program can see of the house rules: layers, purity, sizes, cycles, docstrings.

Each test names every place that breaks a rule, so that one run is enough to mend them all. The
rules and their reasons are in docs/ARCHITECTURE.md and CONTRIBUTING.md.
"""

import ast
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "kwire"
CODE_FOLDERS = (
    "kwire",
    "tests",
    "compat_tests",
    "browser_tests",
    "container_tests",
    "install_tests",
    "ecosystem_tests",
    "spark_tests",
    "bench",
    "demo",
)

MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 70

# A module may import from its own layer's room and from every room listed for it.
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "clock": set(),
    "config": {"errors"},
    "protocol": {"errors", "config"},
    "record": {"errors", "config", "protocol"},
    "log": {"errors", "config", "protocol", "record"},
    "coordinator": {"errors", "config", "protocol", "record"},
    "budget": {"errors", "config"},
    "metadata": {"errors", "config", "protocol", "record", "budget"},
}
BELOW_RUNTIME = {
    *("errors", "clock", "config", "protocol", "record", "log", "coordinator", "metadata"),
    "budget",
}
ALLOWED["runtime"] = BELOW_RUNTIME
ALLOWED["share"] = {"errors", "config", "protocol", "record", "coordinator"}
ALLOWED["client"] = {"errors", "config", "protocol", "record"}
ALLOWED["security"] = BELOW_RUNTIME | {"runtime", "client"}
ALLOWED["quotas"] = {"errors", "metadata"}
ALLOWED["broker"] = BELOW_RUNTIME | {"runtime", "client", "security", "quotas", "share"}
ALLOWED["handlers"] = ALLOWED["broker"] | {"broker", "security"}
ALLOWED["dispatch"] = ALLOWED["handlers"] | {"handlers"}
ALLOWED["connection"] = ALLOWED["dispatch"] | {"dispatch"}
ALLOWED["housekeeping"] = ALLOWED["connection"] | {"connection"}
ALLOWED["metrics"] = ALLOWED["housekeeping"]
ALLOWED["schemas"] = {"errors", "config"}
ALLOWED["web"] = ALLOWED["housekeeping"] | {"metrics", "schemas"}
ALLOWED["registry"] = ALLOWED["web"] | {"web"}
ALLOWED["server"] = ALLOWED["housekeeping"] | {"housekeeping", "metrics", "web", "registry"}
ALLOWED["cluster_server"] = ALLOWED["server"] | {"server"}
ALLOWED["workers"] = ALLOWED["cluster_server"] | {"cluster_server"}
ALLOWED["service"] = set()
ALLOWED["cli"] = ALLOWED["server"] | {
    *("server", "cluster_server", "workers", "service", "schemas", "registry"),
}
ALLOWED["__main__"] = {"cli"}
ALLOWED["testing"] = ALLOWED["cli"] | {"cli"}
ALLOWED["spark"] = ALLOWED["testing"] | {"testing"}

# What replicates knows of the rest of the broker only this.
REPLICA_KNOWS = {
    *("replica", "partition", "flusher", "delayed", "delayed_produce", "proposals"),
    *("peers", "failure_detector", "fetch_sessions"),
}

# Rooms that know no event loop, no clock, no files; the log knows files only.
NO_TRIO = {"errors", "config", "protocol", "record", "log", "coordinator", "quotas"}
NO_WORLD = {"errors", "protocol", "record", "coordinator", "quotas"}
WORLD_MODULES = {"os", "time", "socket", "random", "pathlib", "threading", "subprocess", "datetime"}
PURE_METADATA = {
    *("image", "changes", "controller", "store", "acls", "quotas"),
    *("placement", "partition_change", "leader_election", "preferred_leader_election"),
    *("replication_configs", "registration", "liveness", "lost_replicas"),
    *("fewer_brokers", "reassignment"),
}


SLEEPS, RUN_SYNC = {"time.sleep", "trio.sleep", "asyncio.sleep"}, "trio.to_thread.run_sync"
LOOKED_FOR = ("sleep", "run_sync")
"""A file without these words has none of the calls above."""

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


class Facts:
    """What all tests need of one file, from its syntax tree.

    The tree isn't kept: those of all files together are a million objects, which every collection
    of garbage in later tests would look at. Expressions are most of it, and are looked at only in
    a file that has one of the words in ``LOOKED_FOR``.
    """

    def __init__(self, tree: ast.Module, *, has_expressions: bool) -> None:
        self.has_docstring = ast.get_docstring(tree) is not None
        self.without_docstring = list(_public_without_docstring(tree.body, ""))
        self.imports: list[tuple[str, int]] = []
        self.relative_imports: list[int] = []
        self.functions: list[tuple[str, int, int]] = []
        """Every function's name, line and number of lines, nested ones included."""
        self.dotted: list[tuple[str, int]] = []
        """Every ``a.b.c``, with its line, if expressions are looked at."""
        self.calls: list[tuple[str, int]] = []
        """What is called by a name or as ``a.b.c``, with its line, likewise."""
        for statement in statements(tree):
            self._note(statement)
        for node in ast.walk(tree) if has_expressions else ():
            if isinstance(node, ast.Attribute):
                self.dotted.append((dotted(node), node.lineno))
            elif isinstance(node, ast.Call):
                self.calls.append((dotted(node.func), node.lineno))

    def _note(self, node: ast.AST) -> None:
        if isinstance(node, ast.Import | ast.ImportFrom):
            self.imports += imported_names(node)
            if isinstance(node, ast.ImportFrom) and node.level:
                self.relative_imports.append(node.lineno)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or 0) - node.lineno + 1
            self.functions.append((node.name, node.lineno, length))


def statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Every statement, those within others included."""
    left: list[ast.AST] = list(tree.body)
    while left:
        node = left.pop()
        yield node
        for inner in ("body", "orelse", "finalbody", "handlers", "cases"):
            left += getattr(node, inner, ())


def dotted(node: ast.expr) -> str:
    """``a.b.c`` as it is written; what is no name has an empty one, as in ``().c``."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    names.append(node.id if isinstance(node, ast.Name) else "")
    return ".".join(reversed(names))


@cache
def text_of(path: Path) -> str:
    """A file, read once for all tests."""
    return path.read_text(encoding="utf-8")


@cache
def facts(path: Path) -> Facts:
    """What all tests need of a file of Python, parsed once for all tests."""
    text = text_of(path)
    has_expressions = any(word in text for word in LOOKED_FOR)
    return Facts(ast.parse(text, filename=str(path)), has_expressions=has_expressions)


@cache
def python_files(*folders: str) -> list[Path]:
    """Every Python file of these top-level folders."""
    return sorted(
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if "__pycache__" not in path.parts
    )


def module_name(path: Path) -> str:
    """``kwire/log/segment.py`` → ``kwire.log.segment``; a package is named by its folder."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_names(node: ast.Import | ast.ImportFrom) -> Iterator[tuple[str, int]]:
    """Every module that an import names, with its line."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield alias.name, node.lineno
    elif node.module:
        yield node.module, node.lineno
        for alias in node.names:
            yield f"{node.module}.{alias.name}", node.lineno


def room_of(module: str) -> str | None:
    """``kwire.log.segment`` → ``log``; None for modules that aren't kwire's, or its root."""
    parts = module.split(".")
    return parts[1] if parts[0] == "kwire" and len(parts) > 1 else None


def test_rooms_import_only_downwards() -> None:
    """A room imports the rooms below it and nothing else (ARCHITECTURE: who may import whom)."""
    wrong = []
    for path in python_files("kwire"):
        room = room_of(module_name(path))
        for name, line in facts(path).imports:
            target = room_of(name)
            if room is None or target in (None, room, "__version__"):
                continue
            if room not in ALLOWED:
                wrong.append(f"{path.relative_to(ROOT)}: room {room!r} has no place in ALLOWED")
                break
            if target not in ALLOWED[room]:
                wrong.append(f"{path.relative_to(ROOT)}:{line}: {room} imports {name}")
    assert not wrong, "\n".join(sorted(set(wrong)))


def test_replicas_know_little_of_the_broker() -> None:
    """broker/replica imports of the rest of the broker only what ``REPLICA_KNOWS`` has."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for path in python_files("kwire")
        if path.parent == PACKAGE / "broker" / "replica"
        for name, line in facts(path).imports
        if name.startswith("kwire.broker.") and name.split(".")[2] not in REPLICA_KNOWS
    ]
    assert not wrong, "\n".join(wrong)


def test_no_event_loop_below_the_runtime() -> None:
    """trio comes in from the runtime upward: what lies below is plain synchronous code."""
    wrong = []
    for path in python_files("kwire"):
        module = module_name(path)
        room = room_of(module)
        pure_metadata = room == "metadata" and module.split(".")[-1] in PURE_METADATA
        if room not in NO_TRIO and not pure_metadata:
            continue
        wrong += [
            f"{path.relative_to(ROOT)}:{line}: {name}"
            for name, line in facts(path).imports
            if name.split(".")[0] == "trio"
        ]
    assert not wrong, "\n".join(wrong)


def test_pure_rooms_do_not_reach_the_world() -> None:
    """Protocol, records and coordinators take time, chance and bytes as arguments."""
    wrong = []
    for path in python_files("kwire"):
        module = module_name(path)
        pure_metadata = room_of(module) == "metadata" and module.split(".")[-1] in PURE_METADATA
        if room_of(module) not in NO_WORLD and not pure_metadata:
            continue
        wrong += [
            f"{path.relative_to(ROOT)}:{line}: {name}"
            for name, line in facts(path).imports
            if name.split(".")[0] in WORLD_MODULES and name != "random.Random" and name != "random"
        ]
    assert not wrong, "\n".join(wrong)


def test_no_relative_imports() -> None:
    """Imports are absolute, so a name is the same wherever it is read."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in python_files(*CODE_FOLDERS)
        for line in facts(path).relative_imports
    ]
    assert not wrong, "\n".join(wrong)


def import_cycles(imports: Mapping[str, set[str]]) -> list[str]:
    """The cycles among modules, by what each imports; every import counts, wherever it stands.

    An import under TYPE_CHECKING or in a function puts off the loading. Whoever reads one of the
    two modules still has to know the other.
    """
    graph = {
        module: {name for name in names if name in imports and name != module}
        for module, names in imports.items()
    }
    cycles: list[str] = []
    done: set[str] = set()

    def visit(module: str, trail: tuple[str, ...]) -> None:
        if module in trail:
            cycles.append(" → ".join((*trail[trail.index(module) :], module)))
        elif module not in done:
            for imported in sorted(graph[module]):
                visit(imported, (*trail, module))
            done.add(module)

    for module in sorted(graph):
        visit(module, ())
    return cycles


def test_no_import_cycles() -> None:
    """No module of kwire imports itself through others, not even for its types."""
    cycles = import_cycles(
        {
            module_name(path): {name for name, _ in facts(path).imports}
            for path in python_files("kwire")
        }
    )
    assert not cycles, "\n".join(cycles)


@pytest.mark.parametrize(
    "back",
    [
        "import kwire.a",
        "from kwire import a",
        "if TYPE_CHECKING:\n    from kwire.a import A",
        "def load():\n    from kwire.a import A",
    ],
)
def test_a_cycle_is_seen_wherever_its_imports_stand(back: str) -> None:
    """At the top of a module, under TYPE_CHECKING, and in a function."""
    sources = {"kwire.a": "from kwire.b import B", "kwire.b": "import kwire.c", "kwire.c": back}
    imports = {
        module: {name for name, _ in Facts(ast.parse(source), has_expressions=False).imports}
        for module, source in sources.items()
    }
    assert import_cycles(imports) == ["kwire.a → kwire.b → kwire.c → kwire.a"]
    assert import_cycles(imports | {"kwire.c": {"os"}}) == []


def test_files_are_small() -> None:
    """A file of more than 600 lines holds a second idea that wants a name of its own."""
    wrong = [
        f"{path.relative_to(ROOT)}: {lines} lines"
        for path in python_files(*CODE_FOLDERS)
        if (lines := len(text_of(path).splitlines())) > MAX_FILE_LINES
    ]
    assert not wrong, "\n".join(wrong)


def test_functions_are_small() -> None:
    """A function fits on a screen."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {name} has {length} lines"
        for path in python_files(*CODE_FOLDERS)
        for name, line, length in facts(path).functions
        if length > MAX_FUNCTION_LINES
    ]
    assert not wrong, "\n".join(wrong)


def test_every_module_says_what_it_is() -> None:
    """Every module opens with a docstring, tests included."""
    wrong = [
        str(path.relative_to(ROOT))
        for path in python_files(*CODE_FOLDERS)
        if not facts(path).has_docstring
    ]
    assert not wrong, "\n".join(wrong)


def _public_without_docstring(body: list[ast.stmt], prefix: str) -> Iterator[str]:
    """Names of public functions, methods and classes in ``body`` that say nothing."""
    for node in body:
        if not isinstance(node, Definition):
            continue
        if node.name.startswith("_"):
            continue
        overload = any("overload" in ast.unparse(d) for d in node.decorator_list)
        setter = any(ast.unparse(d).endswith(".setter") for d in node.decorator_list)
        if ast.get_docstring(node) is None and not overload and not setter:
            yield f"{prefix}{node.name} (line {node.lineno})"
        if isinstance(node, ast.ClassDef):
            yield from _public_without_docstring(node.body, f"{prefix}{node.name}.")


def test_every_public_name_says_what_it_is() -> None:
    """Public classes, functions and methods of kwire have a docstring."""
    wrong = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in python_files("kwire")
        for name in facts(path).without_docstring
    ]
    assert not wrong, "\n".join(wrong)


def test_tests_never_sleep() -> None:
    """Tests wait for a state, never for a time."""
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in python_files("tests", "compat_tests", "spark_tests")
        for name, line in facts(path).calls
        if name in SLEEPS
    ]
    assert not wrong, "\n".join(wrong)


def test_no_marks_of_a_conflict_are_left() -> None:
    """In no file that is text, whatever merges it has been through."""
    marks = ("<" * 7 + " ", ">" * 7 + " ")
    kinds = {".py", ".md", ".tsv", ".toml", ".txt", ".java", ""}
    left = [
        str(path.relative_to(ROOT))
        for folder in (*CODE_FOLDERS, "docs", "requirements")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and path.suffix in kinds
        if any(line.startswith(marks) for line in path.read_text(encoding="utf-8").splitlines())
    ]
    assert left == []


def test_threads_have_limits_of_their_own() -> None:
    """Work runs in the threads of its kind: trio's default limit would be shared by all kinds.

    A command that is no broker has one kind only: reading its input or writing its output.
    """
    wrong = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in python_files("kwire")
        for name, line in facts(path).dotted
        if name == RUN_SYNC
        and path != PACKAGE / "budget" / "thread_pool.py"
        and room_of(module_name(path)) != "cli"
    ]
    assert not wrong, "\n".join(wrong)
