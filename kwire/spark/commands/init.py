"""``kwire pipeline init``: write a pipeline's file to begin with."""

import argparse
from pathlib import Path

from kwire.cli.options import add_cluster_options
from kwire.cli.output import fail, wrong
from kwire.cli.profiles import ProfileError, find_profile
from kwire.spark.commands.reading import add_examples

TEMPLATE = """\
# A pipeline of kwire: run it with `kwire pipeline run {file}`.
name = "{name}"
checkpoint = "{name}-checkpoint"  # where the pipeline keeps how far it is; never share or edit it
trigger = "10 seconds"            # how often a batch begins; "once": read what is there, and end
# group = "{name}"                # the consumer group that gets the offsets of finished batches
# metrics = "127.0.0.1:9400"      # for Prometheus

[source]
bootstrap_servers = "{bootstrap}"
topics = ["{topic}"]              # or: pattern = "orders-.*"
starting = "earliest"             # latest, a time such as 2026-01-31T12:00:00+00:00, or offsets
on_data_loss = "stop"             # record: go on, and write the lost range into a table
# max_bytes_per_trigger = 268435456

# [source.client]                 # Kafka's own client options
# "client.id" = "{name}"

[decode]
format = "json"                   # what is no JSON is left out, or a dead letter: see below
schema = "id long, name string"   # the columns, as Spark SQL writes them

# [[transform]]
# sql = "SELECT * FROM rows WHERE id > 0"
# [[transform]]
# function = "my_module:my_function"   # takes and returns a DataFrame

[sink]
kind = "parquet"
path = "{name}-table"
metadata = ["topic", "partition", "offset", "timestamp"]

# [dead_letters]
# topic = "{name}-dead"

# [spark]                         # Spark's own settings
# "spark.master" = "local[*]"
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments: the file and its content."""
    parser.add_argument("file", metavar="FILE", help="the file to write; it must not exist")
    parser.add_argument("--topic", metavar="TOPIC", help="the topic (default: the file's name)")
    add_cluster_options(parser)
    add_examples(
        parser,
        "kwire pipeline init orders.toml",
        "kwire pipeline init orders.toml --topic shop.orders -b broker-1:9092",
    )


def run(options: argparse.Namespace) -> int:
    """Write the file; returns the exit code."""
    path = Path(options.file)
    try:
        found = find_profile(options.bootstrap_server, options.cluster)
    except ProfileError as error:
        return wrong(str(error))
    text = TEMPLATE.format(
        file=options.file,
        name=path.stem,
        topic=options.topic or path.stem,
        bootstrap=",".join(f"{host}:{port}" for host, port in found.addresses),
    )
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return fail(f"{path} is there already; choose another name")
    except OSError as error:
        return fail(f"cannot write {path}: {error.strerror}")
    print(
        f"wrote {path}, for JSON with the columns id and name; change them to yours, then: "
        f"kwire pipeline run {path}"
    )
    return 0
