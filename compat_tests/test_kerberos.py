"""Logins by Kerberos (SASL GSSAPI) with a real KDC: Java tools, Python clients, kwire itself.

librdkafka is tested where its build can log in so.

The broker is always a kwire.
"""

import asyncio
import os
from collections.abc import Iterator
from pathlib import Path

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from confluent_kafka.admin import AdminClient
from kafka import KafkaConsumer, KafkaProducer

from compat_tests.cluster import KwireCluster
from compat_tests.command_line import CommandLine
from compat_tests.java_tools import run_tool
from compat_tests.kerberos import REALM, Realm, missing, running_realm
from kwire.testing.process import BrokerProcess
from kwire.testing.waiting import wait_until
from tests.support.etcd import MISSING, find_etcd
from tests.support.ports import free_port
from tests.support.topics import create_topics

pytestmark = pytest.mark.skipif(bool(missing()), reason=f"Kerberos isn't tested: {missing()}")
KRB5 = "com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true"
TOPICS = "org.apache.kafka.tools.TopicCommand"


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Realm]:
    """A KDC that all programs of this module use."""
    with (
        running_realm(tmp_path_factory.mktemp("realm")) as found,
        pytest.MonkeyPatch.context() as m,
    ):
        for name, value in found.environment.items():
            m.setenv(name, value)
        yield found


@pytest.fixture(scope="module")
def broker(realm: Realm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker with a key of its own, where alice is the super user."""
    keytab = realm.keytab("kafka/localhost")
    settings = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
        "sasl.kerberos.principal.to.local.rules": f"RULE:[1:$1@$0](.*@{REALM})s/@.*///L,DEFAULT",
        "listener.name.kerberos.gssapi.sasl.jaas.config": (
            f'{KRB5} keyTab="{keytab}" principal="kafka/localhost@{REALM}";'
        ),
        "listener.security.protocol.map": "KERBEROS:SASL_PLAINTEXT",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:alice",
        "connection.failed.authentication.delay.ms": "100",
    }
    directory = tmp_path_factory.mktemp("broker")
    address = f"localhost:{free_port()}"
    listener = f"KERBEROS://{address}"
    settings["advertised.listeners"] = listener
    with BrokerProcess(directory / "data", settings, listen=listener) as running:
        running.bootstrap = address
        yield running
        assert "bug in" not in running.log()


def _client(realm: Realm, user: str, path: Path, keytab: Path | None = None) -> str:
    found = realm.directory / f"{user}.keytab" if keytab is None else keytab
    if not found.exists():
        found = realm.keytab(user)
    path.write_text(
        "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI\n"
        "sasl.kerberos.service.name=kafka\n"
        f'sasl.jaas.config={KRB5} keyTab="{found}" principal="{user}@{REALM}";\n'
        "request.timeout.ms=5000\ndefault.api.timeout.ms=10000\n"
    )
    return str(path)


def test_java_logs_in_with_a_ticket(realm: Realm, broker: BrokerProcess, tmp_path: Path) -> None:
    """Its principal is a user by the rules, whose rights count; another user has none."""
    how = ("--bootstrap-server", broker.bootstrap, "--command-config")
    alice = _client(realm, "Alice", tmp_path / "alice")
    run_tool(TOPICS, *how, alice, "--create", "--topic", "by-alice")
    assert "by-alice" in run_tool(TOPICS, *how, alice, "--list")
    bob = _client(realm, "bob", tmp_path / "bob")
    assert "by-alice" not in run_tool(TOPICS, *how, bob, "--list")


def test_a_console_producer_and_consumer(
    realm: Realm, broker: BrokerProcess, tmp_path: Path
) -> None:
    """Records go through."""
    alice = _client(realm, "Alice", tmp_path / "alice")
    how = ("--bootstrap-server", broker.bootstrap, "--topic", "lines", "--command-config", alice)
    run_tool("org.apache.kafka.tools.ConsoleProducer", *how, stdin="one\ntwo\n")
    reading = ("--from-beginning", "--max-messages", "2")
    said = run_tool("org.apache.kafka.tools.consumer.ConsoleConsumer", *how, *reading)
    assert said.split() == ["one", "two"]


def _by_default(realm: Realm, user: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the clients of this process be a user, by the key that Kerberos takes by default."""
    path = realm.directory / f"{user}.keytab"
    monkeypatch.setenv("KRB5_CLIENT_KTNAME", str(path if path.exists() else realm.keytab(user)))
    monkeypatch.setenv("KRB5CCNAME", f"FILE:{realm.directory}/{user}.tickets")


def test_kafka_python(realm: Realm, broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record comes back."""
    _by_default(realm, "Alice", monkeypatch)
    how = {
        "bootstrap_servers": broker.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
        "sasl_kerberos_domain_name": "localhost",
    }
    producer = KafkaProducer(**how)
    producer.send("by-kafka-python", b"hello").get(30)
    producer.close()
    reading = {"auto_offset_reset": "earliest", "consumer_timeout_ms": 20_000}
    consumer = KafkaConsumer("by-kafka-python", **how, **reading)
    assert next(consumer).value == b"hello"
    consumer.close()


def test_aiokafka(realm: Realm, broker: BrokerProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    """A record comes back."""
    _by_default(realm, "Alice", monkeypatch)
    how = {
        "bootstrap_servers": broker.bootstrap,
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "GSSAPI",
        "sasl_kerberos_service_name": "kafka",
        "sasl_kerberos_domain_name": "localhost",
    }

    async def run() -> bytes | None:
        async with AIOKafkaProducer(**how) as producer:
            await producer.send_and_wait("by-aiokafka", b"hello")
        async with AIOKafkaConsumer("by-aiokafka", auto_offset_reset="earliest", **how) as consumer:
            return (await consumer.getone()).value

    assert asyncio.run(asyncio.wait_for(run(), 60)) == b"hello"


@pytest.mark.parametrize("has_ticket", [False, True])
def test_a_command_of_kwire(
    realm: Realm,
    broker: BrokerProcess,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    has_ticket: bool,
) -> None:
    """With a key, or with the ticket of whoever calls it; and an error is one line."""
    path = tmp_path / "client.properties"
    _client(realm, "Alice", path)
    if has_ticket:
        _by_default(realm, "Alice", monkeypatch)
        line = "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;"
        text = "".join(f"{one}\n" for one in path.read_text().splitlines() if "jaas" not in one)
        path.write_text(f"{text}sasl.jaas.config={line}\n")
    path.chmod(0o600)
    cli = CommandLine(broker.bootstrap, tmp_path)
    topic = f"by-kwire-{has_ticket:d}"
    cli.ok("topics", "create", topic, "--command-config", str(path))
    assert topic in cli.ok("topics", "list", "--command-config", str(path)).out
    path.write_text(path.read_text().replace("service.name=kafka", "service.name=nobody"))
    done = cli("topics", "list", "--command-config", str(path))
    assert done.code == 1
    assert "the login by Kerberos failed" in done.err


def test_brokers_log_in_at_each_other(realm: Realm, tmp_path: Path) -> None:
    """Three kwires with one key: a topic gets its replicas, and an authorizer is satisfied."""
    if find_etcd() is None:
        pytest.skip(MISSING)
    keytab = realm.keytab("kafka/127.0.0.1")
    settings = {
        "sasl.enabled.mechanisms": "GSSAPI",
        "sasl.mechanism.inter.broker.protocol": "GSSAPI",
        "inter.broker.listener.name": "KERBEROS",
        "listener.security.protocol.map": "KERBEROS:SASL_PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "listener.name.kerberos.gssapi.sasl.jaas.config": (
            f'{KRB5} keyTab="{keytab}" principal="kafka/127.0.0.1@{REALM}";'
        ),
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:kafka;User:ANONYMOUS",
    }
    listeners = {node: f"KERBEROS://127.0.0.1:{free_port()}" for node in (1, 2, 3)}
    with KwireCluster(tmp_path, settings, listeners=listeners) as cluster:
        client = AdminClient({"bootstrap.servers": cluster.bootstrap})
        create_topics(cluster.bootstrap, "orders", partitions=3, replicas=3)
        producer = confluent_kafka.Producer({"bootstrap.servers": cluster.bootstrap, "acks": "all"})
        for number in range(30):
            producer.produce("orders", b"%d" % number, partition=number % 3)
        assert producer.flush(30) == 0

        def in_sync() -> set[int]:
            topic = client.list_topics("orders", timeout=30).topics["orders"]
            return {len(partition.isrs) for partition in topic.partitions.values()}

        wait_until(lambda: in_sync() == {3}, what="all replicas in sync")
        log = cluster.log()
    assert "bug in" not in log
    assert "authentication failed" not in log


def test_a_ticket_for_another_broker_is_refused(
    realm: Realm, broker: BrokerProcess, tmp_path: Path
) -> None:
    """The broker's key doesn't open it, and the log says so."""
    realm.keytab("other/localhost")
    path = tmp_path / "alice"
    text = Path(_client(realm, "Alice", path)).read_text()
    path.write_text(text.replace("service.name=kafka", "service.name=other"))
    how = ("--bootstrap-server", broker.bootstrap, "--command-config", str(path), "--list")
    said = run_tool(TOPICS, *how, fails=True)
    assert "Kerberos ticket is not valid" in said
    assert "Kerberos refuses the ticket" in broker.log()


@pytest.mark.parametrize("is_mutual", [False, True])
def test_an_overheard_ticket_cannot_be_replayed(realm: Realm, is_mutual: bool) -> None:
    """Message by message, on the broker's side of the exchange."""
    import gssapi

    from kwire.security.kerberos import Acceptor, KerberosExchange
    from kwire.security.kerberos_names import LocalNames
    from kwire.security.sasl import LoginRefused

    user, service = f"dave{is_mutual:d}", f"replay{is_mutual:d}"
    options = {"keyTab": str(realm.keytab(f"{service}/localhost"))}
    acceptor = Acceptor({**options, "principal": f"{service}/localhost@{REALM}"})

    def exchange() -> KerberosExchange:
        names = LocalNames(["DEFAULT"], REALM)
        return KerberosExchange(acceptor.new_context(), acceptor.error, names)

    store = {
        "client_keytab": f"FILE:{realm.keytab(user)}",
        "ccache": f"FILE:{realm.directory}/{user}",
    }
    name = gssapi.Name(f"{user}@{REALM}", gssapi.NameType.kerberos_principal)
    flag = gssapi.RequirementFlag
    context = gssapi.SecurityContext(
        name=gssapi.Name(f"{service}@localhost", gssapi.NameType.hostbased_service),
        creds=gssapi.Credentials(name=name, usage="initiate", store=store),
        flags=[flag.integrity, flag.mutual_authentication] if is_mutual else [flag.integrity],
        usage="initiate",
    )
    login = exchange()
    overheard = [context.step()]
    answer = login.step(overheard[0], 0)
    if not context.complete:
        overheard.append(context.step(answer) or b"")
        answer = login.step(overheard[-1], 0)
    context.unwrap(answer)
    overheard.append(context.wrap(b"\x01\0\0\0", False).message)
    login.step(overheard[-1], 0)
    assert login.identity is not None
    assert login.identity.principal.name == user

    def replay() -> None:
        again = exchange()
        for message in overheard:
            again.step(message, 0)

    with pytest.raises(LoginRefused):
        replay()


def test_librdkafka(realm: Realm, broker: BrokerProcess) -> None:
    """Where its build has GSSAPI; that of PyPI's wheels for Linux has none."""
    user = "carol"
    keytab = realm.keytab(user)
    how = {
        "bootstrap.servers": broker.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.keytab": str(keytab),
        "sasl.kerberos.principal": f"{user}@{REALM}",
        "sasl.kerberos.kinit.cmd": f"kinit -k -t {keytab} {user}@{REALM}",
    }
    os.environ["KRB5CCNAME"] = f"FILE:{realm.directory}/cache"
    try:
        producer = confluent_kafka.Producer(how)
    except confluent_kafka.KafkaException as error:
        pytest.skip(f"librdkafka has no GSSAPI here: {error}")
    assert producer.list_topics(timeout=20).brokers
