"""The tutorial of docs/PIPELINES.md works, word for word, but for the addresses."""

import os
import re
import sys
from pathlib import Path

import pytest

from kwire.testing.process import BrokerProcess
from spark_tests.test_pipeline_process import process
from tests.support.ports import free_port

ROOT = Path(__file__).parent.parent
TIMEOUT_S = 600

SAID = (
    "created orders (2 partitions)",
    "→ parquet orders-table",
    "orders: 5 records in 1 batches, 1 dead letters",
    "Barbara    1.25",
    "required column id has no value",
    "1 would be sent: --execute sends them; 0 were sent before",
    "1 sent; 0 were sent before",
    "kwire_pipeline_records_total{",
)


def rows(said: str, title: str) -> list[dict[str, str]]:
    """The rows of the table that has a column of this title."""
    lines = [re.split(r"  +", line.strip()) for line in said.splitlines()]
    place = next(number for number, line in enumerate(lines) if title in line)
    titles = lines[place]
    found = []
    for line in lines[place + 1 :]:
        if len(line) != len(titles):
            break
        found.append(dict(zip(titles, line, strict=True)))
    return found


@pytest.mark.skipif(
    os.environ["KWIRE_SPARK_LANE"] != "stock", reason="one lane is enough for the same commands"
)
def test_the_tutorial(tmp_path: Path) -> None:
    """Every command succeeds, and the outputs are those that the text speaks of."""
    text = (ROOT / "docs" / "PIPELINES.md").read_text(encoding="utf-8")
    tutorial = text.partition("## Tutorial\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```sh\n(.*?)```", tutorial, re.DOTALL)
    metrics = f"127.0.0.1:{free_port()}"
    script = "".join(blocks).replace("http://127.0.0.1:9400", f"http://{metrics}")
    to_free_port = f"sed -i s/127.0.0.1:9400/{metrics}/ orders.toml\n"
    script = script.replace("kwire pipeline check", f"{to_free_port}kwire pipeline check")
    for name, program in (("kwire", "-P -m kwire"), ("python", "")):
        command = tmp_path / name
        command.write_text(f'#!/bin/sh\nexec {sys.executable} {program} "$@"\n', encoding="utf-8")
        command.chmod(0o755)
    with BrokerProcess(tmp_path / "data") as broker:
        script = script.replace("kwire pipeline init", f"kwire pipeline init -b {broker.bootstrap}")
        environment = {
            "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "KWIRE_CONFIG": str(tmp_path / "none.toml"),
            "KWIRE_BOOTSTRAP_SERVER": broker.bootstrap,
        }
        log = tmp_path / "log"
        command_line = ["bash", "-e", "-o", "pipefail", "-c", f"cd {tmp_path}\n{script}"]
        with process(command_line, log, **environment) as child:
            code = child.wait(TIMEOUT_S)
    said = log.read_text(encoding="utf-8")
    assert code == 0, said
    for part in SAID:
        assert part in said, said
    sums = {
        title: sum(int(row[title]) for row in rows(said, "STRANGERS"))
        for title in ("BROKER", "SINK", "DEAD LETTERS", "GAPS", "DOUBLES", "STRANGERS")
    }
    assert list(sums.values()) == [6, 5, 1, 0, 0, 0], said
    for title in ("NEXT", "CLIENT"):  # of the pipeline's status, and of its group
        found = rows(said, title)
        assert [row["COMMITTED"] for row in found] == [row["END"] for row in found], said
        assert [row["LAG"] for row in found] == ["0", "0"], said
