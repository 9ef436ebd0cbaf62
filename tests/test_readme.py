"""README and docs/APIS.md tell the truth about what is served."""

import importlib.util
import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

from kwire.testing.process import BrokerProcess

ROOT = Path(__file__).parent.parent


def test_the_table_of_apis_is_todays() -> None:
    """`make docs` has been run since the table of handlers changed."""
    spec = importlib.util.spec_from_file_location("api_table", ROOT / "docs" / "api_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    page = (ROOT / "docs" / "APIS.md").read_text(encoding="utf-8")
    assert module.with_table(page) == page


def test_the_two_commands_are_there() -> None:
    """The commands that the README names are targets of the Makefile."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in ("run", "test", "check", "compat", "spark", "bench", "demo", "kafka", "fuzz"):
        assert f"\n{target}:" in makefile


def test_the_client_of_the_tour_works(tmp_path: Path) -> None:
    """The snippet runs as it stands, but for the address, and prints what it says it prints."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    [snippet] = [
        text
        for text in re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
        if "KafkaProducer(" in text
    ]
    printed = StringIO()
    with BrokerProcess(tmp_path / "data") as broker, redirect_stdout(printed):
        names: dict[str, object] = {}
        exec(snippet.replace("127.0.0.1:9092", broker.bootstrap), names)
        names["producer"].close()  # type: ignore[attr-defined]
    assert printed.getvalue() == "1000 bookings\n"
