"""The demo's pipeline: its file, its run over a crash of the broker, and what its table says.

The table is read with ``deltalake``, which is neither Spark nor kwire.
"""

import os
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

from demo.flights import Delays
from kwire.cli import main as kwire
from kwire.spark.commands.bar import Bar
from kwire.spark.lost_records import DataLost
from kwire.spark.pipeline import Pipeline
from kwire.spark.pipeline_file import read_pipeline
from kwire.spark.progress import Status
from kwire.spark.session import open_session

MAX_RESTARTS = 5
FILE = """\
name = "flights"
checkpoint = "{directory}/checkpoint"
trigger = "1 second"

[source]
bootstrap_servers = "{bootstrap}"
topics = ["{topic}"]
max_offsets_per_trigger = {batch}

[decode]
format = "json"
schema = '''
    sequence BIGINT NOT NULL, carrier STRING, number INT, dep_delay DOUBLE, arr_delay DOUBLE
'''

[sink]
kind = "{kind}"
path = "{directory}/flights"

[dead_letters]
topic = "{topic}-dead"

[spark]
"spark.master" = "local[2]"
"spark.sql.shuffle.partitions" = "2"
"""
DELTA = """\
"spark.sql.extensions" = "io.delta.sql.DeltaSparkSessionExtension"
"spark.sql.catalog.spark_catalog" = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
"spark.databricks.delta.snapshotPartitions" = "2"
"""


class FlightsPipeline:
    """A pipeline's file in ``directory``, and what is done with it."""

    def __init__(self, directory: Path, bootstrap: str, topic: str, batch: int) -> None:
        self.file = directory / "flights.toml"
        self._table = directory / "flights"
        has_delta = "delta-spark" in os.environ.get("KWIRE_SPARK_JARS", "")
        values = {"directory": directory, "bootstrap": bootstrap, "topic": topic, "batch": batch}
        text = FILE.format(kind="delta" if has_delta else "delta-rs", **values)
        self.file.write_text(text + DELTA * has_delta, encoding="utf-8")
        self._settings = read_pipeline(self.file)
        self.spark = open_session(self._settings)
        self.restarts = 0

    def run(
        self, on_status: Callable[[Status, Callable[[], None]], object], console: Console
    ) -> None:
        """Run with a progress bar, until ``on_status`` calls its second argument.

        If the broker's crash ends the pipeline, it is started again from its checkpoint.
        """
        while True:
            pipeline = Pipeline(self._settings, spark=self.spark)
            with Bar("flights", is_on=True, console=console) as bar:

                def show(status: Status, bar: Bar = bar, stop: Callable[[], None] = pipeline.stop):
                    bar.show(status)
                    on_status(status, stop)

                try:
                    bar.finish(pipeline.run(show))
                except DataLost:
                    raise
                except Exception:
                    self.restarts += 1
                    if self.restarts > MAX_RESTARTS:
                        raise
                else:
                    return

    def verify(self) -> bool:
        """``kwire pipeline verify``: whether the table and the dead letters have every record."""
        return kwire(["pipeline", "verify", str(self.file)]) == 0

    def delays(self) -> tuple[dict[str, Delays], int]:
        """The delays of each carrier, and how many flights the table has twice."""
        from deltalake import DeltaTable

        columns = ["sequence", "carrier", "dep_delay", "arr_delay"]
        table = DeltaTable(self._table).to_pyarrow_table(columns=columns)
        doubles = table.num_rows - len(set(table["sequence"].to_pylist()))
        delays: dict[str, Delays] = {}
        values = (table[name].to_pylist() for name in columns[1:])
        for carrier, dep_delay, arr_delay in zip(*values, strict=True):
            found = delays.get(carrier, Delays())
            delays[carrier] = found.with_flight(dep_delay, arr_delay)
        return delays, doubles
