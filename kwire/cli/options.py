"""Options that many commands have, and the types of their values."""

import argparse
import re
from datetime import datetime

DEFAULT_TIMEOUT_S = 15.0

FORMATS = ("value", "key-value", "pretty", "json", "hex", "raw")
"""How records are printed."""

_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")
_MOST_PARTITIONS = 1_000_000
_UNITS_S = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400}


def add_cluster_options(parser: argparse.ArgumentParser) -> None:
    """The options of a command that talks to a cluster."""
    group = parser.add_argument_group("cluster")
    group.add_argument(
        "-b",
        "--bootstrap-server",
        metavar="HOST[:PORT]",
        help="a broker of the cluster, or several with commas; without a port 9092 (default: that "
        "of --cluster, of KWIRE_BOOTSTRAP_SERVER, of KWIRE_CLUSTER, of the profile file, of "
        "--command-config, else 127.0.0.1:9092)",
    )
    group.add_argument("--cluster", metavar="NAME", help="a cluster of the profile file")
    group.add_argument(
        "--command-config",
        metavar="FILE",
        help="Kafka's client properties, for listeners with TLS or a login (default: that of "
        "KWIRE_COMMAND_CONFIG, or of the cluster in the profile file)",
    )
    group.add_argument(
        "--timeout",
        metavar="SECONDS",
        type=seconds,
        default=DEFAULT_TIMEOUT_S,
        help=f"how long to wait and to try again (default: {DEFAULT_TIMEOUT_S:g})",
    )


def add_json(parser: argparse.ArgumentParser, what: str = "print one JSON document") -> None:
    """``--json``."""
    parser.add_argument("--json", action="store_true", help=what)


def add_printing(consume: argparse.ArgumentParser) -> "argparse._ArgumentGroup":
    """The options of a command that prints records; their group."""
    printing = consume.add_argument_group("how to print")
    printing.add_argument(
        "-f", "--format", choices=FORMATS, default="value", help="default: value, one a line"
    )
    printing.add_argument(
        "--json", dest="format", action="store_const", const="json", help="lines of JSON"
    )
    printing.add_argument(
        "--key-separator", metavar="TEXT", default="\t", help="of key-value (default: a tab)"
    )
    return printing


def seconds(text: str) -> float:
    """A positive number of seconds, also written as 500ms, 2m, 1h or 7d."""
    match = _DURATION.fullmatch(text)
    try:
        found = float(match[1]) * _UNITS_S[match[2]] if match else float(text)
    except ValueError:
        found = -1.0
    if not 0 < found < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is no duration: write 5, 500ms, 2m, 1h or 7d")
    return found


def count(text: str) -> int:
    """A whole number from 0 on."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text} must be a whole number from 0 on")
    return int(text)


def positive(text: str) -> int:
    """A whole number from 1 on."""
    found = count(text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text} must be at least 1")
    return found


def partition_numbers(text: str) -> list[int]:
    """Numbers of partitions: 0, or 0,2 or 0-3.

    The type of options; it refuses a range that is empty, or longer than any topic.
    """
    found: list[int] = []
    for part in text.split(","):
        first, dash, last = part.partition("-")
        start = count(first)
        numbers = range(start, (count(last) if dash else start) + 1)
        if not 0 < len(numbers) <= _MOST_PARTITIONS:
            raise argparse.ArgumentTypeError(f"{part}: write a range as FIRST-LAST, 0-3")
        found += numbers
    return found


def name_value(text: str) -> tuple[str, str]:
    """``NAME=VALUE``."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise argparse.ArgumentTypeError(f"{text}: write it as NAME=VALUE")
    return name.strip(), value.strip()


def header(text: str) -> tuple[str, bytes | None]:
    """A record's header, ``NAME=VALUE``; the value may be empty."""
    name, separator, value = text.partition("=")
    if not separator or not name:
        raise argparse.ArgumentTypeError(f"{text}: write it as NAME=VALUE")
    return name, value.encode()


def topic_partitions(text: str) -> tuple[str, list[int] | None]:
    """``TOPIC``, or ``TOPIC:0,2-4`` for some of its partitions."""
    topic, colon, numbers = text.partition(":")
    if not topic or (colon and not numbers):
        raise argparse.ArgumentTypeError(f"{text}: write it as TOPIC or TOPIC:0-2")
    return topic, partition_numbers(numbers) if colon else None


def time_ms(text: str, now_ms: int) -> int:
    """A point in time, in ms since the epoch; ValueError.

    Written as ISO 8601 (local time unless it names a zone), as ``@`` and ms since the epoch, or as
    a duration before now, ``-1h``.
    """
    match = _DURATION.fullmatch(text.removeprefix("-"))
    try:
        if text.startswith("@"):
            found_ms = int(text[1:])
        elif match:
            found_ms = now_ms - int(float(match[1]) * _UNITS_S[match[2]] * 1000)
        else:
            found = datetime.fromisoformat(text)
            found_ms = int((found if found.tzinfo else found.astimezone()).timestamp() * 1000)
    except OverflowError as error:
        raise ValueError(f"{text} is out of range") from error
    if not 0 <= found_ms < 1 << 63:  # Kafka's protocol gives negative times another meaning
        raise ValueError(f"{text} is not between 1970 and the largest time of Kafka")
    return found_ms
