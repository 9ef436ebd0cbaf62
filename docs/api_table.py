"""The table of APIs in docs/APIS.md, made from the table of what kwire serves.

`make docs` runs this and rewrites the part of docs/APIS.md between the two markers;
tests/test_readme.py fails when the page doesn't say what the code does.
"""

from pathlib import Path

from kwire.handlers import APIS

PAGE = Path(__file__).parent / "APIS.md"
START = "<!-- api-table: made by `make docs` -->\n"
END = "<!-- end of api-table -->\n"


def table() -> str:
    """One Markdown row for each API that is served: name, key, versions."""
    rows = ["| API | key | versions |", "| --- | --- | --- |"]
    rows += [
        f"| {api.name} | {key} | {api.min_version} to {api.max_version} |"
        for key, api in sorted(APIS.items())
    ]
    return "\n".join(rows) + "\n"


def with_table(page: str) -> str:
    """The page with today's table between the markers."""
    head, rest = page.split(START)
    _, tail = rest.split(END)
    return f"{head}{START}\n{table()}\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
