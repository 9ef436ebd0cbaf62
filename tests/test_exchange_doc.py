"""The example of docs/EXCHANGE.md runs as it stands, on a directory that Apache Kafka wrote."""

import re
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_example_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It prints the bounds of the log, and committed records alone."""
    with tarfile.open(ROOT / "tests" / "data" / "kafka-4.4-data-dir.tar.gz") as archive:
        members = [
            m for m in archive.getmembers() if m.name.startswith(("./logs/txn-0", "logs/txn-0"))
        ]
        archive.extractall(tmp_path, members=members, filter="data")
    monkeypatch.chdir(tmp_path / "logs")
    text = (ROOT / "docs" / "EXCHANGE.md").read_text(encoding="utf-8")
    [example] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    exec(compile(example, "docs/EXCHANGE.md", "exec"), {})
    bounds, *shown = capsys.readouterr().out.splitlines()
    assert bounds == "0 502 492"
    assert [line.split()[0] for line in shown] == [str(offset) for offset in range(440, 450)]
