"""``python -m bench.cluster.image PARTITIONS``: a large image by itself, in a process of its own.

It builds the metadata of three brokers and so many partitions, fences one of the brokers, and
commits that to an etcd. Then a second store reads the image, as a broker does when it starts. It
prints a line of JSON for each number.
"""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from random import Random

import trio

from bench.cluster.measure import Number
from bench.usage import resident_mb
from kwire.config.metadata_store import parse_store
from kwire.metadata.changes import BrokerRegistered, Change, ClusterNamed, apply, snapshot
from kwire.metadata.controller import NewTopic, create_topic
from kwire.metadata.etcd.encoding import encode_commit, encode_parts
from kwire.metadata.etcd.etcd_store import EtcdStore
from kwire.metadata.etcd.gateway import Access
from kwire.metadata.image import BrokerImage, MetadataImage
from kwire.metadata.registration import fence
from tests.support.etcd import Etcd

PARTITIONS_PER_TOPIC = 1000
KB = 1000


def changes_of(partitions: int) -> Iterator[list[Change]]:
    """The commits that make three brokers and so many partitions."""
    brokers = [BrokerImage(n, None, (("PLAINTEXT", "127.0.0.1", 9090 + n),)) for n in (1, 2, 3)]
    yield [ClusterNamed("bench"), *map(BrokerRegistered, brokers)]
    chance = Random(1)
    image = MetadataImage()
    image = apply(image, [BrokerRegistered(broker) for broker in brokers], 1)
    for number in range(partitions // PARTITIONS_PER_TOPIC):
        yield create_topic(image, NewTopic(f"topic-{number}", PARTITIONS_PER_TOPIC, 1), chance)


async def opened(partitions: int, url: str, writer: str) -> EtcdStore:
    """A store for the image with so many partitions."""
    return await EtcdStore.open(
        parse_store(f"{url}/bench-{partitions}"),
        Access(),
        writer,
        random=Random(2),
        steady_ms=lambda: int(time.monotonic() * 1000),
        keep_every_ms=1000,
    )


async def read(partitions: int, url: str) -> list[Number]:
    """What reading the image takes, in a process that does nothing else."""
    store = await opened(partitions, url, "2:b")
    before = resident_mb(os.getpid())
    started = time.perf_counter()
    image = await store.read()
    read_s = time.perf_counter() - started
    assert len(image.topics_by_name) == partitions // PARTITIONS_PER_TOPIC
    await store.close()
    size = f"{partitions:,} partitions"
    return [
        Number(f"{size}: the image is read from etcd", read_s, "s"),
        Number(f"{size}: memory that this takes", resident_mb(os.getpid()) - before, "MB"),
    ]


async def fill(partitions: int, url: str) -> None:
    """Write the image, a commit for each topic."""
    store = await opened(partitions, url, "1:a")
    revision = 0
    for changes in changes_of(partitions):
        revision = await store.commit(revision, changes)
    await store.close()


async def lose(partitions: int, url: str) -> list[Number]:
    """What the loss of a broker takes."""
    first = await opened(partitions, url, "1:a")
    image = await first.read()
    size = f"{partitions:,} partitions"
    numbers = []
    written = sum(map(len, encode_parts(snapshot(image))))
    numbers.append(Number(f"{size}: a snapshot in etcd", written / KB, "KB"))
    started = time.perf_counter()
    changes = fence(image, frozenset({3}))
    decided_s = time.perf_counter() - started
    encoded = encode_commit("1:a:1", changes)
    size_kb = (len(encoded.value) + sum(map(len, encoded.parts))) / KB
    started = time.perf_counter()
    await first.commit(image.revision, changes)
    committed_s = time.perf_counter() - started
    started = time.perf_counter()
    apply(image, changes, image.revision + 1)
    applied_s = time.perf_counter() - started
    numbers += [
        Number(f"{size}: the loss of a broker is decided", decided_s * 1000, "ms"),
        Number(f"{size}: its commit", size_kb, "KB"),
        Number(f"{size}: its commit to etcd", committed_s * 1000, "ms"),
        Number(f"{size}: each broker applies it", applied_s * 1000, "ms"),
    ]
    await first.close()
    return numbers


def main() -> int:
    """Measure with an etcd of its own, and print; with an etcd's URL only read."""
    partitions = int(sys.argv[1])
    if len(sys.argv) > 2:
        say(trio.run(read, partitions, sys.argv[2]))
        return 0
    with Etcd() as etcd:
        trio.run(fill, partitions, etcd.url)
        command = [sys.executable, "-m", "bench.cluster.image", str(partitions), etcd.url]
        subprocess.run(command, check=True)
        say(trio.run(lose, partitions, etcd.url))
    return 0


def say(numbers: list[Number]) -> None:
    """Print numbers, one in each line."""
    for number in numbers:
        print(json.dumps(number), flush=True)


if __name__ == "__main__":
    sys.exit(main())
