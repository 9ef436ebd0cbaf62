"""docs/SECURITY.md tells which rights each API needs, from the guards themselves."""

import importlib.util
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_table_of_rights_is_todays():
    spec = importlib.util.spec_from_file_location("rights_table", DOCS / "rights_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (DOCS / "SECURITY.md").read_text(encoding="utf-8")
    assert page == module.with_table(page)
