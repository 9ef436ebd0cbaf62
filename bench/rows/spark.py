"""A row of Spark: a batch read of a gigabyte with the stock connector, from a warm JVM.

The environment is that of the Spark tests. If it is missing the row is skipped, because creating
the environment takes minutes.
"""

import json
import subprocess
import time

from bench.rows.common import (
    NotHere,
    Row,
    Running,
    create_topic,
    delete_topic,
    next_offset,
    produce_request,
)
from bench.usage import MB, cpu_seconds
from spark_tests.environment import ROOT, LaneMissing, made_environment

NAME = "Spark batch read of 1 GB"
LANE = "stock"
READS = 2
"""How often Spark reads the topic: once to warm up the JVM, once for the number."""
IDLE_SHARE = 0.5
"""If the broker uses less than this share of a core, Spark is the limit."""
PARTITIONS = 8
TIME_LIMIT_S = 600


def spark_read(running: Running) -> float:
    """Megabytes of values that Spark reads per second."""
    try:
        python, environment = made_environment(LANE)
    except LaneMissing as reason:
        raise NotHere(str(reason)) from reason
    bootstrap = running.broker.bootstrap
    topic = create_topic(bootstrap, f"bench-{time.monotonic_ns()}", PARTITIONS)
    requests = [produce_request(topic, 1000, 1000, n) for n in range(PARTITIONS)]
    for n in range(running.spark_mb):
        next_offset(bootstrap, requests[n % PARTITIONS])
    cpu_before_s = cpu_seconds(running.broker.pid)
    run = subprocess.run(
        [str(python), "-m", "bench.spark_read", bootstrap, topic],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )
    if run.returncode:
        raise RuntimeError(f"Spark ended with {run.returncode}: {run.stderr.strip()[-300:]}")
    numbers = json.loads(run.stdout.splitlines()[-1])
    if numbers["bytes"] != running.spark_mb * MB:
        raise RuntimeError(f"Spark has read {numbers['bytes']} bytes of {running.spark_mb} MB")
    used_s = (cpu_seconds(running.broker.pid) - cpu_before_s) / READS
    if used_s < IDLE_SHARE * numbers["seconds"]:
        running.limited.add(NAME)
    delete_topic(bootstrap, topic)
    return float(numbers["bytes"] / numbers["seconds"] / MB)


SPARK_ROWS: list[Row] = [
    Row(NAME, "MB/s", True, spark_read, NAME),
]
