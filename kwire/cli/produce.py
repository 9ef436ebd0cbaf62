"""``kwire produce``: write records from standard input or files.

Rules:

- Each line is a record: its value, key and value with ``--key-separator``, or a line of JSON as
  ``kwire consume --json`` prints it. ``--format raw`` makes one record of a whole input.
- Input is read in pieces and sent in batches, so the memory doesn't depend on the input's size. A
  typed line is sent at once.
- A record with a key goes to the partition that Kafka's own producers choose.
- A batch whose answer is lost is written again, so its records may be there twice.
- Only with ``--create`` is a missing topic created: a mistyped name makes none, whatever
  ``auto.create.topics.enable`` says.
- With ``--schema`` a value is JSON, and is written by the schema of a registry; ``--key-schema``
  does so with the key.
- The first error stops the command. It names the line, and how many records were written before.
"""

import argparse
import sys
from functools import partial
from typing import TYPE_CHECKING

from kwire.cli.options import add_cluster_options, count, header
from kwire.cli.schemas import DEFAULT_URL

if TYPE_CHECKING:
    from kwire.cli.schema_encoding import SchemaEncoding
    from kwire.client.cluster import Cluster

FORMATS = ("line", "json", "raw")
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
DEFAULT_BATCH_BYTES = 256 * 1024


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    produce = commands.add_parser(
        "produce",
        description="Writes a record for each line of standard input or of files. Lines end with "
        "LF or CRLF; --format raw keeps every byte.",
    )
    produce.add_argument("topic", metavar="TOPIC")
    produce.add_argument("files", metavar="FILE", nargs="*", help="- is standard input (default)")
    reading = produce.add_argument_group("what is read")
    reading.add_argument(
        "-f",
        "--format",
        choices=FORMATS,
        default="line",
        help="line: a value each; json: as consume --json prints; raw: one record for each input",
    )
    reading.add_argument(
        "-K", "--key-separator", metavar="TEXT", help="the text between key and value in a line"
    )
    reading.add_argument(
        "--tombstones", action="store_true", help="an empty value is written as null"
    )
    writing = produce.add_argument_group("what is written")
    writing.add_argument("--create", action="store_true", help="create the topic if there is none")
    writing.add_argument("-k", "--key", metavar="TEXT", help="the key of every record")
    writing.add_argument(
        "-H",
        "--header",
        metavar="NAME=VALUE",
        type=header,
        action="append",
        default=[],
        help="may be repeated",
    )
    writing.add_argument("-p", "--partition", metavar="N", type=count, help="default: by the key")
    writing.add_argument(
        "-z", "--compression", choices=CODECS, default="none", help="default: none"
    )
    writing.add_argument(
        "--acks", choices=("all", "1", "0"), default="all", help="who must have it (default: all)"
    )
    writing.add_argument("--rate", metavar="N", type=float, help="at most N records a second")
    writing.add_argument(
        "--batch-bytes",
        metavar="N",
        type=count,
        default=DEFAULT_BATCH_BYTES,
        help=f"the size of a batch before compression (default: {DEFAULT_BATCH_BYTES})",
    )
    writing.add_argument("-q", "--quiet", action="store_true", help="no count and no progress")
    schemas = produce.add_argument_group("by schemas of a registry; keys and values are JSON")
    named = "a file (.avsc, .proto, .json), which is registered, or a subject"
    schemas.add_argument("--schema", metavar="SCHEMA", help=f"of values: {named}")
    schemas.add_argument("--key-schema", metavar="SCHEMA", help=f"of keys: {named}")
    schemas.add_argument(
        "--registry",
        metavar="URL",
        default=DEFAULT_URL,
        help=f"its address, also http://USER:PASSWORD@HOST (default: {DEFAULT_URL})",
    )
    add_cluster_options(produce)
    produce.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Produce; returns the exit code."""
    from kwire.cli.output import wrong
    from kwire.cli.session import run_on_cluster

    if options.rate is not None and not options.rate > 0:
        return wrong(f"--rate {options.rate:g} must be more than 0")
    if options.key_separator == "":
        return wrong("--key-separator must not be empty")
    if sys.stdin.isatty() and not options.files and not options.quiet:
        print("one record a line; Ctrl-D ends the input", file=sys.stderr)
    return run_on_cluster(options, partial(_produce, options=options))


async def _produce(cluster: "Cluster", options: argparse.Namespace) -> int:
    from kwire.cli.producing import LineProducer
    from kwire.cli.record_input import read_inputs
    from kwire.cli.session import CommandError

    encoding = await _encoding(options)
    partitions = await _partitions(cluster, options)
    producer = LineProducer(cluster, options, partitions, encoding)
    try:
        await read_inputs(options, producer.put)
    except CommandError:  # its text says how many records were written
        raise
    except BaseException:  # a lost broker, or Ctrl-C
        await producer.finish()
        raise
    await producer.finish()
    return 0


async def _encoding(options: argparse.Namespace) -> "SchemaEncoding | None":
    """What writes by schemas; None without the options for it; CommandError."""
    if options.schema is None and options.key_schema is None:
        return None
    from importlib.util import find_spec

    import trio

    from kwire.cli.session import CommandError
    from kwire.config.extras import needs

    if find_spec("confluent_kafka") is None:
        raise CommandError(f"--schema {needs('schemas', 'confluent-kafka')}")
    from kwire.cli.schema_encoding import SchemaEncoding

    return await trio.to_thread.run_sync(SchemaEncoding, options)


async def _partitions(cluster: "Cluster", options: argparse.Namespace) -> list[int]:
    """The partitions of the topic, which is created if it is missing and the options say so."""
    from kwire.cli.session import no_topic
    from kwire.client.topics import create_topics
    from kwire.errors import ErrorCode, KafkaError

    name = options.topic
    try:
        found = await cluster.topics([name])
    except KafkaError as error:
        if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        if not options.create:
            raise await no_topic(cluster, name, f"kwire topics create {name} makes one") from error
        created = (await create_topics(cluster, [name]))[name]
        if isinstance(created, KafkaError):
            raise created from error
        found = await cluster.topics([name], creates=True)  # until it has leaders
        if not options.quiet:
            print(f"created topic {name}", file=sys.stderr)
    return sorted(row.partition_index for row in found[name].partitions)
