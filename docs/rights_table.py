"""The table of rights in docs/SECURITY.md, made from the guards of the APIs.

`make docs` runs this and rewrites the part of docs/SECURITY.md between the two markers;
tests/handlers/test_rights_table.py fails when the page doesn't say what the code does.
"""

from importlib import import_module
from pathlib import Path

from kwire.handlers import APIS, OWN_APIS
from kwire.handlers.guards import FOR_EVERYBODY, GUARDS
from kwire.protocol.messages import MODULES, OWN_MODULES

PAGE = Path(__file__).parent / "SECURITY.md"
START = "<!-- rights: made by `make docs` -->\n"
END = "<!-- end of rights -->\n"


def table() -> str:
    """One Markdown row for each API that is served: its name, and what it needs."""
    rows = ["| API | needs |", "| --- | --- |"]
    modules = {name: module for module, names in GUARDS.items() for name in names}
    for key, api in sorted({**APIS, **OWN_APIS}.items()):
        name = MODULES.get(key) or OWN_MODULES[key]
        if name in FOR_EVERYBODY:
            needs = f"nothing: {FOR_EVERYBODY[name]}"
        else:
            guard = getattr(import_module(f"kwire.handlers.guards.{modules[name]}"), name)
            needs = " ".join(guard.__doc__.split()).rstrip(".")
        rows.append(f"| {api.name} | {needs} |")
    return "\n".join(rows) + "\n"


def with_table(page: str) -> str:
    """The page with today's table between the markers."""
    head, rest = page.split(START)
    _, tail = rest.split(END)
    return f"{head}{START}\n{table()}\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
