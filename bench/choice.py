"""The choice of brokers: all of them, except those that are switched off or missing here."""

import argparse
import os
from pathlib import Path

from rich.console import Console

from bench.brokers import KAFKA, KWIRE, PURE, Maker, kwire_maker, new_kafka
from bench.compiled import NotCompiled, compiled_kwire

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
    add_no(parser, PURE, "without kwire in pure Python (PURE=no)")
    add_no(parser, "compiled", "without compiled kwire (COMPILED=no)")
    parser.add_argument(
        "--compiled-dir",
        type=Path,
        metavar="DIR",
        help="directory of a compiled kwire; by default `make compiled` makes one",
    )


def brokers_of(options: argparse.Namespace, console: Console) -> dict[str, Maker]:
    """The makers of the brokers, in the order of the table; prints why a broker is missing.

    kwire is always included: in pure Python if it can't be compiled.
    """
    makers: dict[str, Maker] = {}
    if options.compiled:
        try:
            makers[KWIRE] = kwire_maker(options.compiled_dir or compiled_kwire(console))
        except NotCompiled as reason:
            console.print(f"no compiled kwire, only pure Python: {reason}", highlight=False)
    if options.pure or not makers:
        makers[PURE] = kwire_maker(None)
    if options.kafka:
        from bench.apache_kafka import missing

        if reason := missing():
            console.print(f"without Apache Kafka: {reason}", highlight=False)
        else:
            makers[KAFKA] = new_kafka
    return makers
