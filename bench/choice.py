"""Which brokers are measured: both, unless told otherwise or Java is missing."""

import argparse
import os

from rich.console import Console


def add_no_kafka(parser: argparse.ArgumentParser) -> None:
    """``--no-kafka``, or KAFKA=no in the environment: kwire alone."""
    given = os.environ.get("KAFKA", "").lower()
    parser.add_argument(
        "--no-kafka",
        dest="kafka",
        action="store_false",
        default=given not in ("no", "0", "false"),
        help="kwire alone",
    )


def brokers_of(options: argparse.Namespace, console: Console) -> list[str]:
    """The brokers that are measured; one line says why Apache Kafka isn't."""
    if not options.kafka:
        return ["kwire"]
    from bench.apache_kafka import missing

    if reason := missing():
        console.print(f"kwire alone: {reason}")
        return ["kwire"]
    return ["kwire", "kafka"]
