"""docs/SETTINGS.md tells the truth about the settings."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"


def test_the_page_of_settings_is_todays() -> None:
    """`make docs` has been run since a setting or its text changed."""
    spec = importlib.util.spec_from_file_location("settings_table", DOCS / "settings_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (DOCS / "SETTINGS.md").read_text(encoding="utf-8") == module.page()
