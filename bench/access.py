"""``make access``: what security costs a request, by the authorizer, quotas and the audit log.

- A check on the way of a record, with 10,000 ACLs: an answer that is known, and a new one.
- Quotas while there is none: the look that a request takes.
- A client with a quota of its own, which isn't served on the short ways of Produce and Fetch.
- The audit log: a fetch and a produce that are allowed or denied, without lines for what is allowed
  and with them.
"""

import argparse
import tempfile
import timeit
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import SimpleNamespace

from confluent_kafka import Producer
from rich.console import Console
from rich.table import Table

from bench.publish import markdown_table, publish_part
from bench.rows.common import PRODUCE_VERSION, produce_request
from bench.usage import cpu_seconds
from compat_tests.raw_client import RawConnection
from kwire.config.authorizer import STANDARD_AUTHORIZER
from kwire.metadata.acls import AclBinding, AclOperation, PatternType, Permission, ResourceType
from kwire.protocol.messages import alter_client_quotas
from kwire.protocol.messages.create_acls import AclCreation, CreateAclsRequest
from kwire.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kwire.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kwire.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kwire.protocol.types import Request
from kwire.security.authorizer import Authorizer
from kwire.security.principal import Principal
from kwire.testing.process import BrokerProcess

HEAD = ("what", "µs")
BEGIN = "<!-- access: made by `make access ARGS=--publish` -->\n"
END = "<!-- end of access -->\n"
ACLS, CHECKS, REQUESTS = 10_000, 200_000, 10_000
AUTHORIZER = {
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
}
TOPIC = "orders"
USES = AclOperation.READ, AclOperation.WRITE
RECORD_BYTES = 100


def checks() -> dict[str, float]:
    """Microseconds of a check, by what it is."""
    write, topic = AclOperation.WRITE, ResourceType.TOPIC
    acls = [
        AclBinding(
            *(topic, f"t{n}", PatternType.PREFIXED if n % 10 == 0 else PatternType.LITERAL),
            *(f"User:u{n % 100}", "*", write, Permission.ALLOW),
        )
        for n in range(ACLS)
    ]
    authorizer = Authorizer((), acls)
    client = SimpleNamespace(principal=Principal("User", "u7"), peer_host="10.0.0.7")
    assert authorizer.allows(client, write, topic, "t107")
    names = iter([f"t{n}-new" for n in range(ACLS)])
    broker = SimpleNamespace(quotas=None)
    known = timeit.timeit(lambda: authorizer.allows(client, write, topic, "t107"), number=CHECKS)
    new = timeit.timeit(lambda: authorizer.allows(client, write, topic, next(names)), number=ACLS)
    empty = timeit.timeit(lambda: None, number=CHECKS)
    look = timeit.timeit(lambda: broker.quotas is not None, number=CHECKS)
    return {
        f"a check with {ACLS:,} ACLs": (known - empty) / CHECKS * 1e6,
        "its first time for a name": new / ACLS * 1e6,
        "quotas while there is none": (look - empty) / CHECKS * 1e6,
    }


def requests() -> dict[str, float]:
    """Microseconds of the broker's processor for a fetch of a small batch."""
    with (
        tempfile.TemporaryDirectory() as directory,
        BrokerProcess(Path(directory) / "data", {}) as broker,
    ):
        producer = Producer({"bootstrap.servers": broker.bootstrap})
        producer.produce(TOPIC, b"x" * 1000)
        assert producer.flush(30) == 0
        connection = RawConnection(broker.bootstrap)
        asked = MetadataRequest(topics=[MetadataRequestTopic(name=TOPIC)])
        [topic] = connection.ask(asked, 12).topics
        one = FetchPartition(partition_max_bytes=100_000)
        fetch = FetchRequest(topics=[FetchTopic(topic_id=topic.topic_id, partitions=[one])])

        def cost(request: Request) -> float:
            return _cost(broker.pid, lambda: connection.ask(request, 13))

        found = {"a fetch of 1 KB": cost(fetch)}
        connection.ask(_quota("producer_byte_rate"), 1)
        found["by a client that may produce so much"] = cost(fetch)
        connection.ask(_quota("consumer_byte_rate"), 1)
        found["by a client that may fetch so much"] = cost(fetch)
        connection.close()
    return found


def audits() -> dict[str, float]:
    """Microseconds of the broker's processor for requests behind an authorizer."""
    found: dict[str, float] = {}
    for what, options in (("", []), (", with --audit-allowed", ["--audit-allowed"])):
        with tempfile.TemporaryDirectory() as name:
            file = ["--audit-log-file", str(Path(name) / "audit.log")]
            with BrokerProcess(
                Path(name) / "data", AUTHORIZER, options=[*file, *options]
            ) as broker:
                found |= {f"{case}{what}": cost for case, cost in _audited(broker)}
    return found


def _audited(broker: BrokerProcess) -> Iterator[tuple[str, float]]:
    """What requests cost of a topic that everybody may use, and of one that nobody may."""
    admin = RawConnection(broker.bootstrap)
    names = TOPIC, "closed"
    created = [CreatableTopic(name=name, num_partitions=1, replication_factor=1) for name in names]
    admin.ask(CreateTopicsRequest(topics=created), 7)
    asked = MetadataRequest(topics=[MetadataRequestTopic(name=name) for name in names])
    ids = {topic.name: topic.topic_id for topic in admin.ask(asked, 12).topics}
    admin.ask(CreateAclsRequest(creations=[_denial(one) for one in USES]), 3)
    for case, name in (("that is allowed", TOPIC), ("that is denied", "closed")):
        one = FetchPartition(partition_max_bytes=100_000)
        fetch = FetchRequest(topics=[FetchTopic(topic_id=ids[name], partitions=[one])])
        yield f"a fetch {case}", _cost(broker.pid, partial(admin.ask, fetch, 13))
    for case, name in (("that is allowed", TOPIC), ("that is denied", "closed")):
        produce = produce_request(name, 1, RECORD_BYTES)
        yield f"a produce {case}", _cost(broker.pid, partial(admin.ask, produce, PRODUCE_VERSION))
    admin.close()


def _denial(operation: AclOperation) -> AclCreation:
    """Nobody may do this with the closed topic."""
    return AclCreation(
        resource_type=ResourceType.TOPIC,
        resource_name="closed",
        resource_pattern_type=PatternType.LITERAL,
        principal="User:*",
        host="*",
        operation=operation,
        permission_type=Permission.DENY,
    )


def _quota(key: str) -> Request:
    """A quota that is never reached."""
    user = alter_client_quotas.EntityData(entity_type="user", entity_name=None)
    rate = alter_client_quotas.OpData(key=key, value=1e12)
    entry = alter_client_quotas.AlterClientQuotasRequestEntryData(entity=[user], ops=[rate])
    return alter_client_quotas.AlterClientQuotasRequest(entries=[entry])


def _cost(pid: int, ask: Callable[[], object]) -> float:
    for _ in range(REQUESTS // 10):
        ask()
    before = cpu_seconds(pid)
    for _ in range(REQUESTS):
        ask()
    return (cpu_seconds(pid) - before) / REQUESTS * 1e6


def main() -> None:
    """Measure, and show or publish the table."""
    parser = argparse.ArgumentParser(prog="bench.access", description="the cost of security")
    parser.add_argument("--publish", action="store_true", help="write docs/PERFORMANCE.md")
    options = parser.parse_args()
    measured = {**checks(), **requests(), **audits()}
    rows = [(what, f"{microseconds:.2f}") for what, microseconds in measured.items()]
    table = Table(*HEAD)
    for row in rows:
        table.add_row(*row)
    Console().print(table)
    if options.publish:
        publish_part(markdown_table([HEAD, *rows]), BEGIN, END)


if __name__ == "__main__":
    main()
