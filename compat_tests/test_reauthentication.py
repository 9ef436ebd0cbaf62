"""Stock clients go on for longer than their logins last (KIP-368): they log in again by themselves.

With ``KWIRE_SECURED=kafka`` the same tests run on Apache Kafka.
"""

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaError, Producer

from compat_tests.java_tools import run_tool
from compat_tests.secured import AUTHORIZER, SecuredBroker, allow, create_users, secured_broker
from compat_tests.test_secured import RIGHTS

SESSION_MS = 3000
RECORDS, INTERVAL_S = 80, 0.1
"""They take more than two sessions."""

WAYS = [("SASL_PLAINTEXT", "PLAIN"), ("SASL_SSL", "SCRAM-SHA-512"), ("SASL_SSL", "OAUTHBEARER")]


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker where a login lasts three seconds."""
    settings = {**AUTHORIZER, "connections.max.reauth.ms": str(SESSION_MS)}
    with secured_broker(tmp_path_factory.mktemp("secured"), settings) as (broker, plain):
        create_users(plain)
        allow(plain, RIGHTS)
        yield broker


@pytest.mark.parametrize(("protocol", "mechanism"), WAYS)
def test_librdkafka(secured: SecuredBroker, protocol: str, mechanism: str) -> None:
    """Every record is acknowledged, without an error that the application sees."""
    topic, errors, done = f"t-{uuid.uuid4().hex}", [], []  # type: ignore[var-annotated]

    def note(error: KafkaError | None, _: object) -> None:
        (errors if error else done).append(error)

    producer = Producer({**secured.librdkafka(protocol, mechanism), "error_cb": errors.append})
    for number in range(RECORDS):
        producer.produce(topic, b"%d" % number, on_delivery=note)
        assert producer.flush(30) == 0
        producer.poll(INTERVAL_S)
    assert not errors
    assert len(done) == RECORDS


def test_java(secured: SecuredBroker) -> None:
    """Kafka's own client sends at its pace, and says what was acknowledged."""
    protocol, mechanism = "SASL_SSL", "SCRAM-SHA-512"
    topic = f"t-{uuid.uuid4().hex}"
    said = run_tool(
        "org.apache.kafka.tools.VerifiableProducer",
        *("--bootstrap-server", secured.bootstrap[protocol], "--topic", topic),
        *("--max-messages", str(RECORDS), "--throughput", str(int(1 / INTERVAL_S))),
        *("--command-config", secured.java(protocol, mechanism)),
    )
    assert f'"acked":{RECORDS}' in said
    assert "producer_send_error" not in said


def test_each_client_logged_in_again(secured: SecuredBroker) -> None:
    """kwire's log has a line for each login; Kafka's has none."""
    if secured.log is None:
        pytest.skip("Apache Kafka doesn't log logins")
    for mechanism in {mechanism for _, mechanism in WAYS}:
        assert secured.log().count(f"with {mechanism}") >= 3, mechanism
