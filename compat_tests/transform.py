"""A consume-transform-produce loop in a process of its own, to be killed: ``python -m
compat_tests.transform BOOTSTRAP INPUT OUTPUT GROUP TRANSACTIONAL_ID``.

Every record of the input is written to the same partition of the output, its value with ``+`` after
it; the output and the group's offsets are committed together, a few records at a time. It says
``committed N`` after every transaction, and ends by being killed.
"""

import json
import os
import sys

from confluent_kafka import Consumer, KafkaException, Producer

from compat_tests.clients import QUIET
from compat_tests.secured import LOGIN

RECORDS_PER_TRANSACTION = 20
PATIENCE_S = 30


def main(bootstrap: str, source: str, target: str, group: str, transactional_id: str) -> None:
    """Copy for ever."""
    login = json.loads(os.environ.get(LOGIN, "{}"))
    producer = Producer(
        {**login, "bootstrap.servers": bootstrap, "transactional.id": transactional_id},
        logger=QUIET,
    )
    consumer = Consumer(
        {
            **login,
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "session.timeout.ms": 6000,
        },
        logger=QUIET,
    )
    producer.init_transactions(PATIENCE_S)
    consumer.subscribe([source])
    copied = 0
    while True:
        messages = [
            message
            for message in consumer.consume(RECORDS_PER_TRANSACTION, 0.2)
            if message.error() is None
        ]
        if not messages:
            continue
        producer.begin_transaction()
        for message in messages:
            value, partition = message.value(), message.partition()
            assert value is not None
            assert partition is not None
            producer.produce(target, value + b"+", partition=partition)
        try:
            producer.send_offsets_to_transaction(
                consumer.position(consumer.assignment()),
                consumer.consumer_group_metadata(),
                PATIENCE_S,
            )
            producer.commit_transaction(PATIENCE_S)
        except KafkaException as error:
            if not error.args[0].txn_requires_abort():
                raise
            # The group has moved on; whoever has the partitions now goes on with them.
            producer.abort_transaction(PATIENCE_S)
            sys.exit("aborted")
        copied += len(messages)
        print(f"committed {copied}", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
