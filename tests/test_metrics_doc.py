"""docs/METRICS.md and the dashboard tell of the metrics that exist, and of no others."""

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kwire.metrics.definitions import COUNTER, HISTOGRAM, definitions

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
NAME = re.compile(r"\b(?:kwire|kafka|process|python)_[a-z0-9_]+")
SELECTED = re.compile(r"([a-z0-9_]+)\{([^}]*)\}")
LABEL = re.compile(r"(\w+)(?:=|!=|=~|!~)\"")
OF_PROMETHEUS = {"job", "instance", "le"}


def test_the_page_of_metrics_is_todays() -> None:
    """`make docs` has been run since a metric or its text changed."""
    spec = importlib.util.spec_from_file_location("metrics_table", DOCS / "metrics_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (DOCS / "METRICS.md").read_text(encoding="utf-8") == module.page()


def test_names_say_what_a_metric_is() -> None:
    """Counters end in _total, as Prometheus wants it, and each metric has a sentence."""
    for one in definitions().values():
        assert one.name.endswith("_total") == (one.kind == COUNTER), one.name
        assert one.text.endswith((".", "…")), one.name


def test_every_metric_of_our_own_is_put_by_the_code() -> None:
    """The table promises nothing that is never there."""
    code = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("metrics", "web")
        for path in (ROOT / "kwire" / folder).glob("*.py")
    )
    for one in definitions().values():
        if one.name.startswith("kwire_"):
            assert f'"{one.name}"' in code, one.name


def expressions() -> Iterator[str]:
    """The questions of the dashboard's panels and variables."""
    dashboard: dict[str, Any] = json.loads(
        (DOCS / "grafana-dashboard.json").read_text(encoding="utf-8")
    )
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]
    for variable in dashboard["templating"]["list"]:
        yield variable["query"]


def base(name: str) -> str:
    """The metric behind a sample of a histogram."""
    for end in ("_bucket", "_sum", "_count"):
        found = definitions().get(name.removesuffix(end))
        if name.endswith(end) and found is not None and found.kind == HISTOGRAM:
            return found.name
    return name


def test_the_dashboard_asks_only_for_what_exists() -> None:
    """Each metric by its name and its labels."""
    asked = list(expressions())
    assert len(asked) > 40
    for expression in asked:
        for name in NAME.findall(expression):
            assert base(name) in definitions(), f"{name} in {expression}"
        for name, selectors in SELECTED.findall(expression):
            known = {*definitions()[base(name)].labels, *OF_PROMETHEUS}
            assert set(LABEL.findall(selectors)) <= known, expression


def test_rates_are_of_counters() -> None:
    """A rate of a gauge means nothing."""
    for expression in expressions():
        for name in re.findall(r"(?:rate|increase)\(([a-z0-9_]+)\{", expression):
            assert definitions()[base(name)].kind in (COUNTER, HISTOGRAM), expression
