"""Rows of a mix: twenty producers and twenty consumers for a minute (``bench.mix``).

The rate is the same for every broker, two thousand batches a second. The rows compare the latency,
from the median to the 99.99th percentile, and the broker's CPU time.
"""

import json
import subprocess
import sys
import time
from typing import Any

from bench.rows.common import (
    GENERATOR_IS_LIMIT,
    Row,
    Running,
    create_topic,
    delete_topic,
    next_offset,
    produce_request,
)
from bench.usage import cpu_seconds

NAME = "20 producers and 20 consumers"
PAIRS = 20
SHARES = {"p50": 0.5, "p99": 0.99, "p99.9": 0.999, "p99.99": 0.9999}
"""The percentiles in the rows, by their labels."""


def mix(running: Running) -> dict[str, Any]:
    """Run the mix once a round; returns its numbers, and the CPU seconds per million batches."""
    if NAME in running.results:
        return running.results[NAME]
    bootstrap = running.broker.bootstrap
    topic = create_topic(bootstrap, f"bench-{time.monotonic_ns()}", PAIRS)
    offsets = [
        next_offset(bootstrap, produce_request(topic, 1, 1, partition)) + 1
        for partition in range(PAIRS)
    ]
    command = [sys.executable, "-m", "bench.mix", bootstrap, topic, str(running.mix_seconds)]
    before = cpu_seconds(running.broker.pid)
    run = subprocess.run(
        [*command, *map(str, offsets)],
        capture_output=True,
        text=True,
        timeout=running.mix_seconds + 60,
        check=False,
    )
    used = cpu_seconds(running.broker.pid) - before
    if run.returncode:
        raise RuntimeError(run.stderr.strip()[-300:])
    numbers: dict[str, Any] = json.loads(run.stdout)
    numbers["cpu"] = used / numbers["batches"] * 1e6
    if numbers["generator_share"] > GENERATOR_IS_LIMIT:
        running.limited.add(NAME)
    delete_topic(bootstrap, topic)
    running.results[NAME] = numbers
    return numbers


def latency_row(what: str, label: str) -> Row:
    """A row with a percentile of a batch's latency."""

    def measure(running: Running) -> float:
        return float(mix(running)[what][label])

    return Row(f"{NAME}: {what}, {label}", "µs", False, measure, NAME)


def cpu(running: Running) -> float:
    """The broker's CPU seconds per million batches that were produced and consumed."""
    return float(mix(running)["cpu"])


MIX_ROWS: list[Row] = [
    *(latency_row(what, label) for what in ("acknowledged", "arrived") for label in SHARES),
    Row(f"{NAME}: CPU per million", "s", False, cpu, NAME),
]
