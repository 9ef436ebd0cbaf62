"""A run and its curves as Markdown, for the documents."""

from bench.bars import Bar
from bench.brokers import KWIRE
from bench.profile import profile_file
from bench.reasons import Reason, reasons
from bench.report import (
    Growth,
    Line,
    Run,
    behind,
    cells_of,
    headings,
    legend,
    lines_of,
    number,
    ratio_text,
    restarts_of,
    rounds_text,
    sections_of,
    text_of,
)


def table(rows: list[list[str]], left: int) -> str:
    """A Markdown table; the first row is its head, the first ``left`` columns are left-aligned."""
    aligned = [*["---"] * left, *["---:"] * (len(rows[0]) - left)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in (rows[0], aligned, *rows[1:]))


def rows_table(run: Run, lines: list[Line]) -> str:
    """Lines as a Markdown table."""
    return table([headings(run), *(text_of(run, line) for line in lines)], 2)


def legend_text(run: Run, lines: list[Line]) -> str:
    """A paragraph that explains the marks in these lines."""
    said = [mark.replace("*", r"\*", 1) for mark in legend(run, lines)]
    return ";\n".join(said) + ".\n" if said else ""


def whole_table(run: Run) -> str:
    """The whole table, section by section."""
    parts = [f"### {section}\n\n{rows_table(run, lines)}" for section, lines in sections_of(run)]
    parts.append(legend_text(run, list(lines_of(run))))
    parts += [f"Not measured: {note}.\n" for note in run["notes"]]
    return "\n".join(filter(None, parts))


def facts(run: Run) -> str:
    """The machine, the settings of the run, and the machine's own limits."""
    options = run["options"]
    machine = "".join(f"| {name} | {value} |\n" for name, value in run["machine"].items())
    limits = "".join(
        f"| {name} | {number(value)} {unit} |\n" for name, (value, unit) in run["limits"].items()
    )
    return (
        f"Medians of {rounds_text(options['rounds'])} of {options['seconds']:g} s a row, brokers in"
        f" turn in every row, after {options['warm_up']:g} s of warm-up and more.\n\n"
        f"| the machine | |\n| --- | --- |\n{machine}\n"
        f"| its own limits | |\n| --- | ---: |\n{limits}"
    )


def losses(run: Run) -> str:
    """The rows where kwire loses or misses its bar, with what limits them, in Markdown."""
    missed = behind(run)
    parts = ["### Where kwire loses, or misses its bar\n"]
    for reason, lines in by_reason(missed):
        rows = "; ".join(f"{line.row.name}: {missed_bar(line)}" for line in lines)
        parts.append(f"- {rows}.{reason_text(reason)}{profiles_text(lines)}")
    return "\n".join(parts if missed else [*parts, "Nowhere."]) + "\n"


def missed_bar(line: Line) -> str:
    """How far a row is from its bar."""
    if line.bar.absolute:
        found = f"{number(line.cells[KWIRE].median or 0.0)} {line.row.unit}"
    else:
        found = ratio_text(line.ratio)
    near = ", within the rounds' spread" if line.within_spread else ""
    return f"**{found}**, the bar is {bare(line.bar)}{near}"


def bare(bar: Bar) -> str:
    """A bar as text for a sentence."""
    return f"{bar}".strip("()")


def by_reason(lines: list[Line]) -> list[tuple[Reason | None, list[Line]]]:
    """The lines grouped by the reason that explains them; lines without a reason stay alone."""
    known = reasons()
    found: list[tuple[Reason | None, list[Line]]] = []
    places: dict[str, int] = {}
    for line in lines:
        reason = next((one for one in known if one.explains(line.row.name)), None)
        if reason is not None and reason.rows in places:
            found[places[reason.rows]][1].append(line)
            continue
        if reason is not None:
            places[reason.rows] = len(found)
        found.append((reason, [line]))
    return found


def reason_text(reason: Reason | None) -> str:
    """What limits the rows, if that is known."""
    return f"\n  {reason.text}" if reason else " What limits it hasn't been found yet."


def profiles_text(lines: list[Line]) -> str:
    """Links to the existing profiles of the rows."""
    files = dict.fromkeys(profile_file(line.row) for line in lines)
    links = [
        f"[{file.stem}](performance/{file.parent.name}/{file.name})"
        for file in files
        if file.exists()
    ]
    return f" Profiles: {', '.join(links)}." if links else ""


def growth_tables(growth: Growth) -> str:
    """Every curve as a Markdown table."""
    parts = []
    for name, grown in growth.items():
        parts.append(table(cells_of(name, grown), 0))
        if restarts := restarts_of(grown):
            parts.append(f"{restarts[0].upper()}{restarts[1:]}.\n")
    return "\n".join(parts)
