"""Rows of read_committed: fetches from a topic with transactions, of which a tenth was aborted.

The records are those of the other fetch rows, a hundred of 1 KB in each transaction. As in Kafka,
aborted records are sent too, with the list of aborted transactions.
"""

import time

from bench.load import ask
from bench.rows.common import (
    TIME_LIMIT_S,
    Measured,
    Row,
    Running,
    bytes_rows,
    create_topic,
    delete_topic,
    next_offset,
    produce_request,
)
from bench.rows.fetch import FETCH_VERSION, READ_COMMITTED, fetch_request, same_fetch_load
from bench.rows.transactions import RECORD_BYTES, RECORDS, Committer
from bench.usage import MB
from kwire.protocol.messages.fetch import FetchRequest

ABORTED_EVERY = 10


def wait_for(bootstrap: str, fetch: FetchRequest, least_bytes: int) -> None:
    """Wait until all transactions have ended, because open ones hold back their records."""
    time_limit = time.monotonic() + TIME_LIMIT_S
    while True:
        answer = ask(bootstrap, fetch, FETCH_VERSION).responses[0].partitions[0]
        if len(answer.records) >= least_bytes and answer.aborted_transactions:
            return
        if time.monotonic() > time_limit:
            raise RuntimeError("the transactions are not decided")


def committed_load(running: Running, name: str, max_bytes: int) -> Measured:
    """Fetch the same transactions again and again."""
    if name in running.runs:
        return running.runs[name]
    bootstrap = running.broker.bootstrap
    topic = create_topic(bootstrap, f"bench-{time.monotonic_ns()}")
    next_offset(bootstrap, produce_request(topic, 1, 1))
    committer = Committer(bootstrap, topic, topic)
    for n in range(max_bytes // (RECORDS * RECORD_BYTES) + 2):
        committer.transact(committed=n % ABORTED_EVERY != ABORTED_EVERY // 2)
    committer.close()
    fetch = fetch_request(topic, 0, max_bytes, 100, isolation_level=READ_COMMITTED)
    wait_for(bootstrap, fetch, max_bytes // 2)
    run = same_fetch_load(running, name, fetch, max_bytes // 2)
    delete_topic(bootstrap, topic)
    return run


def committed_rows(name: str, max_bytes: int) -> list[Row]:
    """Rows for fetches of ``max_bytes``, one after the other."""
    return bytes_rows(
        name,
        lambda running: committed_load(running, name, max_bytes),
        lambda load: load.response_bytes,
    )


COMMITTED_ROWS: list[Row] = [
    *committed_rows("fetch read_committed, 1 MB at a time", MB),
    *committed_rows("fetch read_committed, 10 MB at a time", 10 * MB),
]
