"""The table of rights in docs/SECURITY.md, made from the tables beside the handlers.

`make docs` runs this and rewrites the part of docs/SECURITY.md between the two markers;
tests/handlers/test_rights_table.py fails when the page doesn't say what the code does.
"""

from importlib import import_module
from pathlib import Path

from kwire.handlers import APIS, OWN_APIS
from kwire.handlers.lib.rights import needs
from kwire.protocol.messages import MODULES, OWN_MODULES

PAGE = Path(__file__).parent / "SECURITY.md"
START = "<!-- rights: made by `make docs` -->\n"
END = "<!-- end of rights -->\n"


def table() -> str:
    """One Markdown row for each API that is served: its name, and what it needs."""
    rows = ["| API | needs |", "| --- | --- |"]
    for key, api in sorted({**APIS, **OWN_APIS}.items()):
        module = import_module(f"kwire.handlers.{MODULES.get(key) or OWN_MODULES[key]}")
        rows.append(f"| {api.name} | {needs(module.RIGHTS)} |")
    return "\n".join(rows) + "\n"


def with_table(page: str) -> str:
    """The page with today's table between the markers."""
    head, rest = page.split(START)
    _, tail = rest.split(END)
    return f"{head}{START}\n{table()}\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
