"""The choice of brokers: kwire, and Apache Kafka unless it is switched off or missing here."""

import argparse
import os

from rich.console import Console

from bench.brokers import KAFKA, KWIRE, Maker, kwire_maker, new_kafka

NO = ("no", "0", "false")


def add_no(parser: argparse.ArgumentParser, name: str, help_text: str) -> None:
    """Add ``--no-NAME``, or NAME=no in the environment, which leaves a broker out."""
    parser.set_defaults(**{name: os.environ.get(name.upper(), "").lower() not in NO})
    parser.add_argument(  # without a default of its own, which the help would show
        f"--no-{name}", dest=name, action="store_false", default=argparse.SUPPRESS, help=help_text
    )


def add_choice(parser: argparse.ArgumentParser) -> None:
    """Add the options that choose the brokers."""
    add_no(parser, KAFKA, "without Apache Kafka (KAFKA=no)")


def brokers_of(options: argparse.Namespace, console: Console) -> dict[str, Maker]:
    """The makers of the brokers, in the order of the table; prints why a broker is missing."""
    makers = {KWIRE: kwire_maker()}
    if options.kafka:
        from bench.apache_kafka import missing

        if reason := missing():
            console.print(f"without Apache Kafka: {reason}", highlight=False)
        else:
            makers[KAFKA] = new_kafka
    return makers
