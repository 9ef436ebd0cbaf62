"""``make segments``: reading a topic's segments against reading it with the connector.

The program starts a kwire, writes a million records, and measures both ways in the environment of a
Spark lane (``make spark`` makes it). The best of the rounds counts. It prints a table, and exits
with 1 if a ratio is below its bar. ``--publish`` also writes the table into docs/PERFORMANCE.md.

Options: ``--lane new|stock``, ``--records N``, ``--codec lz4``, ``--rounds 3``.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from kwire.log.checkpoints import HIGH_WATERMARKS, read_offsets
from kwire.log.disk import Disk
from kwire.testing.process import BrokerProcess
from spark_tests.environment import ROOT, made_environment

BARS = {
    "full scan, all columns": 1.3,
    "5 % of the offsets, WHERE": 4.0,
    "5 % of the time, WHERE": 4.0,
    "groupBy key, columns=key": 2.0,
}
"""How many times faster than the connector a query should be."""

PARTITIONS = 2
TOPIC = "bench"
START_MS = 1_700_000_000_000
PERFORMANCE = ROOT / "docs" / "PERFORMANCE.md"
BEGIN, END = "<!-- segments -->", "<!-- end of segments -->"


def main() -> int:
    """Measure; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lane", choices=("new", "stock"), default="new")
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--codec", default="lz4")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--publish", action="store_true")
    options = parser.parse_args()
    python, environment = made_environment(options.lane)
    with tempfile.TemporaryDirectory(prefix="kwire-bench-") as name:
        directory = Path(name) / "data"
        with BrokerProcess(directory) as broker:
            fill(broker.bootstrap, options.records, options.codec)
            wait_for_high_watermarks(directory, options.records)
            arguments = [broker.bootstrap, str(directory), TOPIC, str(options.rounds)]
            run = subprocess.run(
                [str(python), "-m", "bench.segments_spark", *arguments],
                env=environment,
                cwd=name,
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
    found = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    table, met = report(found, options)
    print(table)
    if options.publish:
        publish(table)
    return 0 if met else 1


def fill(bootstrap: str, records: int, codec: str) -> None:
    """Write records of JSON of about 80 bytes, with 5,000 different keys, a millisecond apart."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    new = NewTopic(TOPIC, PARTITIONS, 1, config={"retention.ms": "-1"})
    admin.create_topics([new])[TOPIC].result(60)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 20}
    )
    chance = random.Random(1)
    words = [f"{chance.getrandbits(64):016x}" for _ in range(1000)]
    for n in range(records):
        text = (
            f'{{"id":{n},"a":"{words[n % 997]}","b":"{words[n * 7 % 1000]}","n":{n * 13 % 99991}}}'
        )
        while True:
            try:
                producer.produce(
                    TOPIC, text, b"key-%d" % (n % 5000), n % PARTITIONS, timestamp=START_MS + n
                )
                break
            except BufferError:
                producer.poll(0.1)
    if producer.flush(120):
        raise RuntimeError("records could not be written")


def wait_for_high_watermarks(directory: Path, records: int) -> None:
    """Wait until the broker has written how far the topic may be read."""
    deadline = time.monotonic() + 60
    while sum(read_offsets(directory / HIGH_WATERMARKS, Disk()).values()) < records:
        if time.monotonic() > deadline:
            raise RuntimeError(f"{HIGH_WATERMARKS} was not written")
        time.sleep(0.2)


def report(found: list[dict[str, Any]], options: argparse.Namespace) -> tuple[str, bool]:
    """The table, and whether all bars are met."""
    rows = [
        (
            f"{options.records:,} records, {options.codec}, lane {options.lane}, best of"
            f" {options.rounds}:"
        ),
        "",
        "| query | connector, s | segments, s | ratio | bar |",
        "| --- | ---: | ---: | ---: | --- |",
    ]
    met = True
    for line in found:
        if "connector" not in line:
            continue
        one, other = min(line["connector"]), min(line["segments"])
        bar = BARS.get(line["query"])
        met = met and (bar is None or one / other >= bar)
        verdict = "" if bar is None else f"{bar} {'met' if one / other >= bar else 'not met'}"
        rows.append(
            f"| {line['query']} | {one:.2f} | {other:.2f} | {one / other:.1f} | {verdict} |"
        )
    return "\n".join(rows), met


def publish(table: str) -> None:
    """Put the table between its marks in docs/PERFORMANCE.md."""
    text = PERFORMANCE.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PERFORMANCE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
