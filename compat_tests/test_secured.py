"""Stock clients over TLS and with logins, users made by Kafka's own tool, and who is refused.

The broker has an authorizer. ACLs let alice use topics and groups that begin with ``t-``, however
she has logged in, and nothing else.

With ``KWIRE_SECURED=kafka`` the same tests run on Apache Kafka.
"""

import asyncio
import uuid
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType
from kafka import KafkaConsumer, KafkaProducer
from kafka.errors import GroupAuthorizationFailedError
from kafka.errors import KafkaError as KafkaPythonError

from compat_tests.java_tools import run_tool
from compat_tests.kafka_version import CONFIGS
from compat_tests.secured import (
    AUTHORIZER,
    MECHANISMS,
    PASSWORD,
    USER,
    SecuredBroker,
    allow,
    secured_broker,
)
from kwire.testing.waiting import wait_until
from tests.support.topics import create_topics

WAYS = [("SSL", ""), *((p, m) for p in ("SASL_PLAINTEXT", "SASL_SSL") for m in MECHANISMS)]


RIGHTS = (
    (ResourceType.TOPIC, "t-", AclOperation.CREATE),
    (ResourceType.TOPIC, "t-", AclOperation.WRITE),
    (ResourceType.TOPIC, "t-", AclOperation.READ),
    (ResourceType.GROUP, "t-", AclOperation.READ),
)
HIDDEN = "orders"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker whose users for SCRAM were made by kafka-configs."""
    with secured_broker(tmp_path_factory.mktemp("secured"), AUTHORIZER) as (broker, plain):
        for mechanism in MECHANISMS[1:3]:
            run_tool(
                CONFIGS,
                *("--bootstrap-server", plain, "--alter", "--entity-type", "users"),
                *("--entity-name", USER),
                *("--add-config", f"{mechanism}=[iterations=8192,password={PASSWORD}]"),
            )
        admin = AdminClient({"bootstrap.servers": plain})
        found = admin.describe_user_scram_credentials([USER])[USER].result()
        credentials = {str(c.mechanism): c.iterations for c in found.scram_credential_infos}
        assert sorted(credentials.values()) == [8192, 8192]
        allow(plain, RIGHTS)
        create_topics(plain, HIDDEN)
        yield broker


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_kafka_python(secured: SecuredBroker, protocol: str, mechanism: str) -> None:
    """Records of all sizes come back as they were."""
    how = secured.kafka_python(protocol, mechanism)
    topic = f"t-{uuid.uuid4().hex}"
    values = [bytes([size % 251]) * size for size in (1, 1000, 20_000, 300_000, 900_000)]
    producer = KafkaProducer(**how)
    for value in values:
        producer.send(topic, value).get(30)
    producer.close()
    consumer = KafkaConsumer(topic, auto_offset_reset="earliest", consumer_timeout_ms=20_000, **how)
    found = [next(consumer).value for _ in values]
    consumer.close()
    assert found == values


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_librdkafka(secured: SecuredBroker, protocol: str, mechanism: str) -> None:
    """A group reads what was produced."""
    how = secured.librdkafka(protocol, mechanism)
    topic = f"t-{uuid.uuid4().hex}"
    producer = Producer(how)
    for number in range(1000):
        producer.produce(topic, b"%d" % number * 500)
    assert producer.flush(30) == 0
    consumer = Consumer({**how, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    found: list[bytes] = []
    wait_until(
        lambda: found.extend(m.value() for m in consumer.consume(1000, 1)) or len(found) >= 1000,
        what="all records",
    )
    consumer.close()
    assert found == [b"%d" % number * 500 for number in range(1000)]


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_aiokafka(secured: SecuredBroker, protocol: str, mechanism: str) -> None:
    """Records come back as they were."""
    topic = f"t-{uuid.uuid4().hex}"
    values = [bytes([size % 251]) * size for size in (1, 20_000, 900_000)]

    async def run() -> list[bytes | None]:
        how = secured.aiokafka(protocol, mechanism)
        async with AIOKafkaProducer(**how) as producer:
            for value in values:
                await producer.send_and_wait(topic, value)
        async with AIOKafkaConsumer(topic, auto_offset_reset="earliest", **how) as consumer:
            return [(await consumer.getone()).value for _ in values]

    assert asyncio.run(asyncio.wait_for(run(), 60)) == values


@pytest.mark.parametrize(("protocol", "mechanism"), [WAYS[0], *WAYS[-4:]])
def test_java(secured: SecuredBroker, protocol: str, mechanism: str) -> None:
    """Kafka's console tools, with TLS."""
    how = "--bootstrap-server", secured.bootstrap[protocol]
    how = *how, "--command-config", secured.java(protocol, mechanism)
    topic = f"t-{uuid.uuid4().hex}"
    producer = "org.apache.kafka.tools.ConsoleProducer"
    run_tool(producer, *how, "--topic", topic, stdin="first\nsecond\n")
    consumer = "org.apache.kafka.tools.consumer.ConsoleConsumer"
    reading = "--topic", topic, "--group", topic, "--from-beginning", "--max-messages", "2"
    assert run_tool(consumer, *how, *reading).splitlines() == ["first", "second"]


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_what_no_acl_allows(secured: SecuredBroker, protocol: str, mechanism: str) -> None:
    """A topic of others is neither seen nor written, nor is a group of others joined."""
    how = secured.librdkafka(protocol, mechanism)
    errors: list[KafkaError] = []
    producer = Producer({**how, "error_cb": errors.append})
    assert HIDDEN not in producer.list_topics(timeout=20).topics
    producer.produce(HIDDEN, b"x", on_delivery=lambda error, _: errors.append(error))
    producer.flush(20)
    assert KafkaError.TOPIC_AUTHORIZATION_FAILED in [error.code() for error in errors]
    client = KafkaConsumer(group_id="others", **secured.kafka_python(protocol, mechanism))
    client.subscribe([f"t-{uuid.uuid4().hex}"])
    with pytest.raises(GroupAuthorizationFailedError):
        client.poll(20_000)
    client.close()


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS[1:])
def test_a_wrong_password_is_refused(secured: SecuredBroker, protocol: str, mechanism: str) -> None:
    """librdkafka is told that the login failed."""
    errors: list[KafkaError] = []
    how = secured.librdkafka(protocol, mechanism, "wrong")
    client = AdminClient({**how, "error_cb": errors.append})
    wait_until(lambda: (client.poll(0.1), errors)[1], what="the refusal")
    assert errors[0].code() == KafkaError._AUTHENTICATION


def test_without_a_certificate_nobody_gets_in(secured: SecuredBroker) -> None:
    """ssl.client.auth=required."""
    how = secured.kafka_python("SSL", "")
    del how["ssl_certfile"], how["ssl_keyfile"]
    with pytest.raises(KafkaPythonError):
        KafkaProducer(**how, bootstrap_timeout_ms=3000)


def test_a_plain_client_gets_nothing_from_a_secured_listener(secured: SecuredBroker) -> None:
    """Neither without TLS nor without a login."""
    for protocol in ("SASL_PLAINTEXT", "SSL", "SASL_SSL"):
        with pytest.raises(KafkaPythonError):
            KafkaProducer(bootstrap_servers=secured.bootstrap[protocol], bootstrap_timeout_ms=2000)
