"""``python -m demo`` (``make demo``): flights through kwire, with a ``kill -9`` halfway.

A stock producer writes every flight, keyed by its carrier, into 4 partitions. Two stock consumers
in a group count the flights, and a Spark streaming job writes the delays of each carrier to
Parquet. Halfway the broker is killed and restarted. In the end, consumers and Spark must have the
same numbers as the file.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from demo.clients import TIMEOUT_S, CountingGroup, FlightProducer
from demo.flights import Delays, delays_of, read_flights
from kwire.testing.process import BrokerProcess

TOPIC = "flights"
PARTITIONS = 4


class Demo:
    """One run; ``run`` returns whether all results are right."""

    def __init__(self, rows: int | None, *, spark: bool, console: Console) -> None:
        self.console = console
        self.flights = list(read_flights(rows))
        self.with_spark = spark

    def run(self, directory: Path) -> bool:
        """Run the demo in an empty directory."""
        expected = delays_of(iter(self.flights))
        self.say(f"{len(self.flights):,} flights of {len(expected)} carriers are in the file")
        started = time.monotonic()
        with BrokerProcess(directory / "data") as broker:
            taken = time.monotonic() - started
            self.say(f"kwire listens on {broker.bootstrap}, {taken:.2f} s after its start")
            admin = AdminClient({"bootstrap.servers": broker.bootstrap})
            admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(TIMEOUT_S)
            counted, computed = self._stream(broker, directory)
        return self._compare(expected, counted, computed)

    def say(self, text: str) -> None:
        """Print what happens."""
        self.console.print(f"[bold cyan]•[/] {text}", highlight=False)

    def _stream(
        self, broker: BrokerProcess, directory: Path
    ) -> tuple[dict[str, Delays], dict[str, Delays] | None]:
        """Produce, crash, consume; returns the results of the consumers and of Spark."""
        job = None
        if self.with_spark:
            from demo.spark_job import DelayJob

            self.say("starting Spark …")
            job = DelayJob(broker.bootstrap, TOPIC, directory)
        group = CountingGroup(broker.bootstrap, TOPIC, members=2)
        producer = FlightProducer(broker.bootstrap, TOPIC, self.flights)
        producer.start()
        with Progress(console=self.console) as progress:
            total = len(self.flights)
            acknowledged = progress.add_task("acknowledged", total=total)
            consumed = progress.add_task("consumed", total=total)
            crashed = False
            while group.count < total:
                producer.check()
                group.check()
                progress.update(acknowledged, completed=producer.acknowledged)
                progress.update(consumed, completed=group.count)
                if not crashed and producer.acknowledged >= total // 2:
                    crashed = True
                    self._crash(broker, producer)
                producer.wait_progress()
            progress.update(acknowledged, completed=producer.acknowledged)
            progress.update(consumed, completed=group.count)
        producer.join()
        group.stop()
        self.say(f"the consumers saw {group.repeated:,} records twice around the crash")
        return group.delays(), job.finish() if job else None

    def _crash(self, broker: BrokerProcess, producer: FlightProducer) -> None:
        before = producer.acknowledged
        pid = broker.pid
        broker.kill()
        started = time.monotonic()
        broker.restart()
        taken = time.monotonic() - started
        self.say(
            f"[red]kill -9 {pid}[/] with {before:,} records acknowledged; back after {taken:.2f} s"
        )

    def _compare(
        self,
        expected: dict[str, Delays],
        counted: dict[str, Delays],
        computed: dict[str, Delays] | None,
    ) -> bool:
        """Print the results; returns whether all of them are equal."""
        table = Table(title="flights and delays (minutes) of each carrier")
        for name in ("carrier", "flights", "departure", "arrival", "consumers", "Spark"):
            table.add_column(name, justify="left" if name == "carrier" else "right")
        for carrier, delays in sorted(expected.items(), key=lambda item: -item[1].flights):
            spark = "-" if computed is None else _mark(computed.get(carrier) == delays)
            table.add_row(
                carrier,
                f"{delays.flights:,}",
                _mean(delays.dep_sum, delays.dep_count),
                _mean(delays.arr_sum, delays.arr_count),
                _mark(counted.get(carrier) == delays),
                spark,
            )
        self.console.print(table)
        right = counted == expected and computed in (None, expected)
        self.say("all results match the file" if right else "[red]some results differ[/]")
        return right


def _mean(total: float, count: int) -> str:
    return f"{total / count:.1f}" if count else "-"


def _mark(right: bool) -> str:
    return "[green]same[/]" if right else "[red]differs[/]"


def main() -> int:
    """Run the demo; returns 0 if all results are right."""
    parser = argparse.ArgumentParser(prog="demo", description="flights through kwire")
    parser.add_argument("--rows", type=int, help="number of flights (default: all)")
    parser.add_argument("--no-spark", action="store_true", help="skip the Spark job")
    options = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="kwire-demo-") as directory:
        demo = Demo(options.rows, spark=not options.no_spark, console=console)
        return 0 if demo.run(Path(directory)) else 1


if __name__ == "__main__":
    sys.exit(main())
