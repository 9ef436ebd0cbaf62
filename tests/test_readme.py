"""The README tells the truth about what is served."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parent.parent


def test_the_table_of_apis_is_todays() -> None:
    """`make docs` has been run since the table of handlers changed."""
    spec = importlib.util.spec_from_file_location("api_table", ROOT / "docs" / "api_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert module.with_table(readme) == readme


def test_the_two_commands_are_there() -> None:
    """The commands that the README names are targets of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("run", "test", "check", "compat", "spark", "bench", "demo", "kafka", "fuzz"):
        assert f"\n{target}:" in makefile
