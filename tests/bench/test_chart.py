"""The published charts are small, and say what the numbers say."""

import json
from pathlib import Path
from xml.etree import ElementTree

from bench.chart import draw_growth, draw_ratios
from bench.publish import GROWTH_CHART, PUBLISHED, RATIOS
from bench.published import NUMBERS, compact, read_growth, read_run, write_growth, write_run
from bench.report import main_lines

SMALL_BYTES = 10_000
SVG = "{http://www.w3.org/2000/svg}"


def _words(chart: Path) -> list[str]:
    """What is written in a chart."""
    root = ElementTree.fromstring(chart.read_text(encoding="utf-8"))
    return [text.text or "" for text in root.iter(f"{SVG}text")]


def test_the_published_charts_are_those_of_the_published_numbers(tmp_path: Path) -> None:
    """`make bench ARGS=--publish` has written them, and they are a few KB each."""
    run, chart = read_run(), tmp_path / "chart.svg"
    if run is not None:
        draw_ratios(run, chart)
        assert chart.read_bytes() == (PUBLISHED / RATIOS).read_bytes()
        assert chart.stat().st_size < SMALL_BYTES
        names = [line.row.name for line in main_lines(run) if line.advantage]
        assert set(names) <= set(_words(chart))
    if growth := read_growth():
        draw_growth(growth, chart)
        assert chart.read_bytes() == (PUBLISHED / GROWTH_CHART).read_bytes()
        assert chart.stat().st_size < SMALL_BYTES
        assert {f"CPU a request, µs by {curve}" for curve in growth} <= set(_words(chart))


def test_a_chart_without_numbers_is_not_drawn(tmp_path: Path) -> None:
    """There is no empty picture."""
    draw_growth({}, tmp_path / "chart.svg")
    assert list(tmp_path.iterdir()) == []


def test_published_numbers_are_kept_beside_each_other(tmp_path: Path) -> None:
    """A run and the curves are in one file; the one stays when the other is measured anew."""
    file = tmp_path / "numbers.json"
    assert (read_run(file), read_growth(file)) == (None, {})
    write_run({"rows": {"mix": {"kwire": [1.23456789, 2]}}}, file)
    write_growth({"groups": {"points": {}, "restart_s": {"kwire": 0.5}}}, file)
    write_run({"rows": {"mix": {"kwire": [3.5]}}}, file)
    assert read_run(file) == {"rows": {"mix": {"kwire": [3.5]}}}
    assert read_growth(file) == {"groups": {"points": {}, "restart_s": {"kwire": 0.5}}}


def test_the_file_has_a_line_for_each_row_and_seven_digits(tmp_path: Path) -> None:
    """A diff of it can be read."""
    file = tmp_path / "numbers.json"
    write_run({"rows": {"mix": {"kwire": [1234567.89, 2], "kafka": []}}}, file)
    row = '"mix":{"kwire":[1234568.0,2],"kafka":[]}'
    assert file.read_text() == f'{{\n"run":{{\n"rows":{{\n{row}\n}}\n}}\n}}\n'
    assert len(NUMBERS.read_text(encoding="utf-8").splitlines()) < 300


def test_all_published_numbers_are_compact() -> None:
    """Each file is as its program writes it, with a line for each row or each part."""
    for file in NUMBERS.parent.glob("*.json"):
        text = file.read_text(encoding="utf-8")
        assert text == compact(json.loads(text)) + "\n", file
