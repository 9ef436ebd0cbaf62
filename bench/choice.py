"""Which brokers are measured: all of them, unless told otherwise or something is missing here."""

import argparse
import os
from pathlib import Path

from rich.console import Console

from bench.brokers import KAFKA, KWIRE, PURE, Maker, kwire_maker, new_kafka
from bench.compiled import NotCompiled, compiled_kwire

NO = ("no", "0", "false")


def add_no(parser: argparse.ArgumentParser, name: str, help_text: str) -> None:
    """``--no-NAME``, or NAME=no in the environment: without that broker."""
    parser.set_defaults(**{name: os.environ.get(name.upper(), "").lower() not in NO})
    parser.add_argument(  # no default of its own, for its help would show that
        f"--no-{name}", dest=name, action="store_false", default=argparse.SUPPRESS, help=help_text
    )


def add_choice(parser: argparse.ArgumentParser) -> None:
    """The options that say which brokers are measured."""
    add_no(parser, KAFKA, "without Apache Kafka (KAFKA=no)")
    add_no(parser, PURE, "without kwire in pure Python (PURE=no)")
    add_no(parser, "compiled", "without compiled kwire (COMPILED=no)")
    parser.add_argument(
        "--compiled-dir",
        type=Path,
        metavar="DIR",
        help="where a compiled kwire lies; made with `make compiled` unless given",
    )


def brokers_of(options: argparse.Namespace, console: Console) -> dict[str, Maker]:
    """How each broker is made, in the order of the table; one line says what is missing, and why.

    kwire is always there: where it can't be compiled, in pure Python.
    """
    makers: dict[str, Maker] = {}
    if options.compiled:
        try:
            makers[KWIRE] = kwire_maker(options.compiled_dir or compiled_kwire(console))
        except NotCompiled as reason:
            console.print(f"no compiled kwire, pure Python alone: {reason}", highlight=False)
    if options.pure or not makers:
        makers[PURE] = kwire_maker(None)
    if options.kafka:
        from bench.apache_kafka import missing

        if reason := missing():
            console.print(f"without Apache Kafka: {reason}", highlight=False)
        else:
            makers[KAFKA] = new_kafka
    return makers
