"""``kwire bench``: a small measurement of producing and consuming, and of one record's latency.

It writes to a topic of its own, which is deleted afterwards. For a comparison of brokers see
``make bench`` in kwire's sources.
"""

import argparse
from typing import TYPE_CHECKING, Any

from kwire.cli.options import add_cluster_options, add_json, positive

if TYPE_CHECKING:
    from kwire.client.cluster import Cluster
    from kwire.client.leaders import TopicPartition

DEFAULT_RECORDS = 200_000
DEFAULT_SIZE_BYTES = 100
_BATCH_BYTES = 256 * 1024
_ROUND_TRIPS = 200
_P50, _P99 = 0.5, 0.99
CLIENT = "the client, one Python process that decodes each record, is the limit"
"""A remark about the figure of consume, because it isn't the broker's speed."""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    bench = commands.add_parser(
        "bench",
        description="Measures in a topic of its own, which is deleted afterwards. The client is "
        "one Python process, so a fast broker is not used to its full.",
    )
    bench.add_argument(
        "-n",
        "--records",
        metavar="N",
        type=positive,
        default=DEFAULT_RECORDS,
        help=f"default: {DEFAULT_RECORDS}",
    )
    bench.add_argument(
        "-s",
        "--size",
        metavar="BYTES",
        type=positive,
        default=DEFAULT_SIZE_BYTES,
        help=f"the size of a value (default: {DEFAULT_SIZE_BYTES})",
    )
    bench.add_argument("-p", "--partitions", metavar="N", type=positive, default=1)
    add_json(bench)
    add_cluster_options(bench)
    bench.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Measure; returns the exit code."""
    from kwire.cli.session import run_on_cluster
    from kwire.cli.tables import show

    async def work(cluster: "Cluster") -> int:
        import uuid

        import trio

        from kwire.cli.denials import BENCH_PREFIX
        from kwire.client.leaders import TopicPartition
        from kwire.client.topics import create_topics, delete_topics
        from kwire.errors import KafkaError

        name = f"{BENCH_PREFIX}{uuid.uuid4().hex[:8]}"
        created = (await create_topics(cluster, [name], partitions=options.partitions))[name]
        if isinstance(created, KafkaError):
            raise created
        try:
            partitions = [TopicPartition(name, index) for index in range(options.partitions)]
            rows = [
                await _round_trips(cluster, partitions[0], options),
                await _produce(cluster, partitions, options),
                await _consume(cluster, partitions),
            ]
        finally:
            with trio.move_on_after(options.timeout, shield=True):
                await delete_topics(cluster, [name])
        columns = {"what": "WHAT", "value": "VALUE", "unit": "UNIT", "more": "MORE"}
        show(rows, columns, as_json=options.json)
        return 0

    return run_on_cluster(options, work)


def _batch(size_bytes: int, records: int) -> bytes:
    from kwire.record.records import BatchBuilder

    builder = BatchBuilder()
    value = bytes(range(33, 127)) * (size_bytes // 94 + 1)
    for _ in range(records):
        builder.add(0, None, value[:size_bytes])
    return bytes(builder.build())


async def _round_trips(
    cluster: "Cluster", partition: "TopicPartition", options: argparse.Namespace
) -> dict[str, Any]:
    """How long a record takes until it is acknowledged."""
    import trio

    from kwire.client.offsets import all_or_raise
    from kwire.client.producer import produce

    batch = _batch(options.size, 1)
    took_ms = []
    for _ in range(_ROUND_TRIPS):
        started_s = trio.current_time()
        all_or_raise(await produce(cluster, {partition: batch}))
        took_ms.append((trio.current_time() - started_s) * 1000)
    took_ms.sort()
    p50, p99 = (took_ms[int(len(took_ms) * share)] for share in (_P50, _P99))
    return {
        "what": "one record, acknowledged",
        "value": round(p50, 2),
        "unit": "ms (median)",
        "more": f"p99 {p99:.2f} ms",
    }


async def _produce(
    cluster: "Cluster", partitions: "list[TopicPartition]", options: argparse.Namespace
) -> dict[str, Any]:
    """How many records a second are written in batches."""
    import trio

    from kwire.client.offsets import all_or_raise
    from kwire.client.producer import produce

    per_batch = max(_BATCH_BYTES // (options.size + 16), 1)
    batch = _batch(options.size, per_batch)
    rounds = max(options.records // (per_batch * len(partitions)), 1)
    started_s = trio.current_time()
    for _ in range(rounds):
        all_or_raise(await produce(cluster, dict.fromkeys(partitions, batch)))
    took_s = trio.current_time() - started_s
    return _rate("produce", rounds * per_batch * len(partitions), options.size, took_s)


async def _consume(cluster: "Cluster", partitions: "list[TopicPartition]") -> dict[str, Any]:
    """How many records a second are read, decoded one by one."""
    import trio

    from kwire.client.fetcher import Fetcher
    from kwire.client.offsets import ends_of

    ends = await ends_of(cluster, partitions)
    records = size_bytes = 0
    fetcher = Fetcher(cluster, dict.fromkeys(partitions, 0))
    left = {one for one in partitions if ends[one]}
    started_s = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(fetcher.run)
        while left:
            fetched = await fetcher.next()
            records += len(fetched.records)
            size_bytes += sum(len(record.value or b"") for record in fetched.records)
            if fetched.next_offset >= ends[fetched.partition]:
                left.discard(fetched.partition)
        nursery.cancel_scope.cancel()
    took_s = trio.current_time() - started_s
    row = _rate("consume", records, size_bytes // max(records, 1), took_s)
    return row | {"more": f"{row['more']}; {CLIENT}"}


def _rate(what: str, records: int, size_bytes: int, took_s: float) -> dict[str, Any]:
    return {
        "what": f"{what} {records:,} records of {size_bytes} bytes",
        "value": round(records / took_s),
        "unit": "records/s",
        "more": f"{records * size_bytes / took_s / 1e6:.1f} MB/s",
    }
