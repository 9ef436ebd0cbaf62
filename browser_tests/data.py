"""Fills a broker with what the page shows: records of every kind, groups, open transactions.

The names and contents that clients choose hold markup, because nothing of it may reach a browser as
markup.
"""

import json
import math
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from confluent_kafka import AcknowledgeType, Consumer, Producer, ShareConsumer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
)

from tests.support.topics import create_topics

MARKUP = "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"
GROUP = "billing"
QUEUE = "packers"
LOCK = "share.record.lock.duration.ms"
LOCK_MS = "3600000"
HOSTILE_GROUP = f'"><b>{MARKUP}'
HOSTILE_CLIENT = f"client-{MARKUP}"
WIDE_PARTITIONS = 5_000
MANY_TOPICS = 500
PARTITIONS_OF_MANY = 10
A_PATH = re.compile("^M[0-9.]+,[0-9.]+L")
SHIPMENT = json.dumps(
    {
        "type": "record",
        "name": "shop.Shipment",
        "fields": [
            {"name": "id", "type": "int"},
            {"name": "city", "type": "string"},
            {"name": "note", "type": "string"},
        ],
    }
)
CITIES = ("Malmö", "Zürich", "Kraków", "Porto", "Łódź")


def fill(bootstrap: str) -> None:
    """Make a few topics with records."""
    names = [
        ("parcels", 2),
        ("dlq.parcels", 1),
        ("orders", 3),
        ("payments", 1),
        ("clicks", 6),
        ("audit", 1),
        ("hostile", 1),
    ]
    for name, partitions in names:
        create_topics(bootstrap, name, partitions=partitions)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    changes = {"retention.ms": "86400000", "segment.bytes": "1048576"}
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in changes.items()
    ]
    resource = ConfigResource(ConfigResource.Type.TOPIC, "orders", incremental_configs=entries)
    for future in admin.incremental_alter_configs([resource]).values():
        future.result()
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20}
    )
    for number in range(3_000):
        order = {"id": number, "city": CITIES[number % 5], "items": [{"sku": f"A-{number % 37}"}]}
        producer.produce(
            "orders",
            key=f"customer-{number % 41}",
            value=json.dumps(order, ensure_ascii=False),
            headers=[("trace", f"{number:016x}"), ("source", "shop")],
        )
        click = f"GET /products/{number % 91} 200 {number % 17} ms"
        producer.produce("clicks", value=click, partition=number % 6)
        producer.poll(0)
    framed = b"\0" + (42).to_bytes(4) + json.dumps({"amount": 12.5, "currency": "EUR"}).encode()
    for _ in range(30):
        producer.produce("payments", key=b"\x01\x02\xff", value=framed)
        producer.produce("payments", value=bytes(range(256)))
    producer.produce("hostile", key=MARKUP, value=MARKUP, headers=[(MARKUP, MARKUP.encode())])
    producer.produce("hostile", value=json.dumps({"text": MARKUP, "turn": "\u202etxt.exe"}))
    producer.produce("hostile", value=None, key="gone")
    producer.flush(60)


def fill_framed(bootstrap: str, schema: int) -> None:
    """Make a topic whose values are Avro, with a schema of the registry."""
    create_topics(bootstrap, "shipments", partitions=1)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(30):
        city, note = CITIES[number % 5].encode(), MARKUP.encode()
        content = bytes([number << 1, len(city) << 1]) + city
        content += bytes([(len(note) << 1) & 0x7F | 0x80, len(note) >> 6]) + note
        producer.produce("shipments", value=b"\0" + schema.to_bytes(4) + content)
    producer.flush(60)


def fill_many(bootstrap: str) -> None:
    """Make so many topics that the broker has 10,000 partitions and more."""
    create_topics(bootstrap, "wide", partitions=WIDE_PARTITIONS)
    names = [f"many-{number:03d}" for number in range(MANY_TOPICS)]
    create_topics(bootstrap, *names, partitions=PARTITIONS_OF_MANY)
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 50})
    for number in range(WIDE_PARTITIONS):
        producer.produce("wide", value=f"record {number}", partition=number)
        producer.poll(0)
    producer.flush(120)


class _Member(threading.Thread):
    """A consumer that reads a little, until it is told to stop."""

    def __init__(
        self, bootstrap: str, group: str, client_id: str, topics: list[str], protocol: str
    ) -> None:
        super().__init__(daemon=True)
        settings: dict[str, Any] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "client.id": client_id,
            "auto.offset.reset": "earliest",
            "group.protocol": protocol,
            "auto.commit.interval.ms": 500,
        }
        if protocol == "classic":
            settings |= {"session.timeout.ms": 10_000, "heartbeat.interval.ms": 500}
        self._consumer = Consumer(settings)
        self._topics = topics
        self._reads_little = protocol == "classic"
        self.has_read = threading.Event()
        self.stops = threading.Event()

    def run(self) -> None:
        """Read."""
        self._consumer.subscribe(self._topics)
        read = 0
        while not self.stops.is_set():
            message = self._consumer.poll(0.1)
            if message is not None and not message.error():
                read += 1
                if read == 400 and self._reads_little:
                    self._consumer.pause(self._consumer.assignment())
            if read or self._consumer.assignment():
                self.has_read.set()
        self._consumer.close()


@contextmanager
def packing(bootstrap: str) -> Iterator[None]:
    """A queue: two workers have records, and some were released, rejected and accepted."""
    changes = {
        "share.auto.offset.reset": "earliest",
        "errors.deadletterqueue.topic.name": "dlq.parcels",
        LOCK: LOCK_MS,
    }
    entries = [
        ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        for name, value in changes.items()
    ]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    group = ConfigResource(ConfigResource.Type.GROUP, QUEUE, incremental_configs=entries)
    dead = ConfigResource(
        ConfigResource.Type.TOPIC,
        "dlq.parcels",
        incremental_configs=[
            ConfigEntry(
                "errors.deadletterqueue.group.enable",
                "true",
                incremental_operation=AlterConfigOpType.SET,
            )
        ],
    )
    for resource in (group, dead):  # librdkafka takes one group in a request
        for future in admin.incremental_alter_configs([resource]).values():
            future.result()
    # A member gets whole batches, so they are small.
    producer = Producer({"bootstrap.servers": bootstrap, "batch.num.messages": 5})
    for number in range(200):
        producer.produce("parcels", value=f"parcel {number}", partition=number % 2)
    producer.flush(60)
    with ExitStack() as opened:
        first = _worker(opened, bootstrap, "packer-1")
        accept, release, reject = (
            *(AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE),
            AcknowledgeType.REJECT,
        )
        for place, message in enumerate(_taken(first)):
            outcome = reject if place == 4 else release if place % 4 == 3 else accept
            first.acknowledge(message, outcome)
        first.commit_sync()
        _taken(first)
        _taken(_worker(opened, bootstrap, "packer-2"))
        yield


def _worker(opened: ExitStack, bootstrap: str, client_id: str) -> ShareConsumer:
    consumer = ShareConsumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": QUEUE,
            "client.id": client_id,
            "share.acknowledgement.mode": "explicit",
            "max.poll.records": 15,
        }
    )
    opened.callback(consumer.close)
    consumer.subscribe(["parcels"])
    return consumer


def _taken(consumer: ShareConsumer) -> list[Any]:
    """The next records that a worker gets."""
    end_s = time.monotonic() + 60
    while time.monotonic() < end_s:
        if found := list(consumer.poll(0.5) or []):
            return found
    raise AssertionError("a worker got no record")


@contextmanager
def living(bootstrap: str, *, is_hostile: bool = True) -> Iterator[None]:
    """Groups with members, and an open transaction, for as long as the block lasts."""
    members = [
        _Member(bootstrap, GROUP, "invoices-1", ["orders"], "classic"),
        _Member(bootstrap, GROUP, "invoices-2", ["orders"], "classic"),
        _Member(bootstrap, "clickstream", "stats", ["clicks"], "consumer"),
    ]
    if is_hostile:
        members.append(_Member(bootstrap, HOSTILE_GROUP, HOSTILE_CLIENT, ["clicks"], "classic"))
    for member in members:
        member.start()
    for member in members:
        assert member.has_read.wait(60), "a consumer got no partition"
    guest = _Member(bootstrap, GROUP, "guest", ["orders"], "classic")
    guest.start()
    assert guest.has_read.wait(60), "a consumer got no partition"
    guest.stops.set()
    guest.join(30)
    transactional = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"ledger {MARKUP}" if is_hostile else "ledger",
            "transaction.timeout.ms": 900_000,
        }
    )
    transactional.init_transactions(60)
    transactional.begin_transaction()
    transactional.produce("audit", value="committed")
    transactional.commit_transaction(60)
    transactional.begin_transaction()
    transactional.produce("audit", value="not yet")
    transactional.flush(60)
    try:
        with packing(bootstrap):
            yield
    finally:
        transactional.abort_transaction(60)
        for member in members:
            member.stops.set()
        for member in members:
            member.join(30)


def load(bootstrap: str, seconds: float) -> None:
    """Write and read for some time, so that the charts show something."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20})
    end_s = time.monotonic() + seconds
    number = 0
    while time.monotonic() < end_s:
        for _ in range(200):
            number += 1
            producer.produce("clicks", value=f"GET /products/{number % 91} 200 {number % 17} ms")
        producer.poll(0)
        time.sleep(0.06 + 0.04 * math.sin(time.monotonic() / 4))
    producer.flush(30)
