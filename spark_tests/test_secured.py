"""Spark's connector over SASL_SSL: with a password, with a delegation token in the options, and
with a token that Spark finds in its credentials, as on a cluster that fetches tokens for its jobs.
"""

import os
import shutil
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from pyspark.sql import SparkSession

from compat_tests.raw_client import RawConnection
from kwire.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
from kwire.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from kwire.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kwire.testing.process import BrokerProcess
from spark_tests.jvm import jvm_of
from spark_tests.rows import KAFKA_QUICK_FETCH, TIMEOUT_S
from tests.support.ports import free_port

USER, PASSWORD = "alice", "alice-secret"
MODULES = "org.apache.kafka.common.security"
CLUSTER = "kwire"
TOKEN_KIND = "KAFKA_DELEGATION_TOKEN"
TOKEN_SERVICE = f"kafka.server.delegation.token.{CLUSTER}"


class Secured(NamedTuple):
    """The address of the SASL_SSL listener, the options of TLS, and a delegation token."""

    bootstrap: str
    options: dict[str, str]
    token_id: str
    hmac: str


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A kwire on which alice has a password for SCRAM and a token, and nobody else anything."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("the program openssl isn't installed")
    directory = tmp_path_factory.mktemp("secured")
    key, certificate = directory / "key.pem", directory / "certificate.pem"
    subprocess.run(
        [
            *(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2"),
            *("-subj", "/CN=kwire", "-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    store = directory / "server.pem"
    store.touch(mode=0o600)
    store.write_text(key.read_text() + certificate.read_text())
    logins, ssl = f"127.0.0.1:{free_port()}", f"127.0.0.1:{free_port()}"
    line = f'{MODULES}.plain.PlainLoginModule required user_{USER}="{PASSWORD}";'
    settings = {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": line,
        "listener.name.sasl_ssl.plain.sasl.jaas.config": line,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(store),
        "delegation.token.secret.key": "the-secret-key",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:{USER}",
    }
    options = ["--listen", f"SASL_PLAINTEXT://{logins}", "--listen", f"SASL_SSL://{ssl}"]
    with BrokerProcess(directory / "data", settings, options=options) as broker:
        token = _prepare(logins)
        tls = {
            "kafka.bootstrap.servers": ssl,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.truststore.location": str(certificate),
            "kafka.sasl.mechanism": "SCRAM-SHA-512",
            **KAFKA_QUICK_FETCH,
        }
        hmac = b64encode(token.hmac).decode()
        yield Secured(ssl, tls, token.token_id, hmac)
        log = broker.log()
    assert "bug in" not in log, log
    assert PASSWORD not in log
    assert hmac not in log


def _prepare(bootstrap: str) -> Any:
    """Give alice a password for SCRAM; a token of hers."""
    admin = AdminClient(
        {
            "bootstrap.servers": bootstrap,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": USER,
            "sasl.password": PASSWORD,
        }
    )
    info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    wanted = UserScramCredentialUpsertion(USER, info, PASSWORD.encode())
    admin.alter_user_scram_credentials([wanted])[USER].result(TIMEOUT_S)
    connection = RawConnection(bootstrap)
    connection.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
    message = f"\0{USER}\0{PASSWORD}".encode()
    connection.ask(SaslAuthenticateRequest(auth_bytes=message), 2)
    token = connection.ask(CreateDelegationTokenRequest(), 3)
    connection.close()
    assert token.error_code == 0
    return token


def _login(name: str, password: str, more: str = "") -> dict[str, str]:
    """The option that logs in by SCRAM."""
    line = f'{MODULES}.scram.ScramLoginModule required username="{name}" password="{password}"'
    return {"kafka.sasl.jaas.config": f"{line} {more};"}


def _round_trip(spark: SparkSession, options: dict[str, str], topic: str, target: Path) -> None:
    """Write as a batch, read as a batch and as a stream."""
    rows = spark.range(100).selectExpr("cast(id as string) as value")
    rows.write.format("kafka").options(topic=topic, **options).save()
    batch = spark.read.format("kafka").options(subscribe=topic, **options).load()
    assert batch.count() == 100
    stream = spark.readStream.format("kafka").options(
        subscribe=topic, startingOffsets="earliest", **options
    )
    writer = stream.load().selectExpr("cast(value as string)").writeStream.format("parquet")
    writer = writer.option("path", str(target / "data"))
    writer = writer.option("checkpointLocation", str(target / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(TIMEOUT_S)
    found = spark.read.parquet(str(target / "data"))
    assert sorted(int(row.value) for row in found.collect()) == list(range(100))


@pytest.mark.both_lanes
def test_with_a_password(spark: SparkSession, secured: Secured, tmp_path: Path) -> None:
    """SCRAM over TLS, as a user would write it."""
    options = secured.options | _login(USER, PASSWORD)
    _round_trip(spark, options, "with-a-password", tmp_path)


def test_with_a_token_in_the_options(spark: SparkSession, secured: Secured, tmp_path: Path) -> None:
    """The token's id and HMAC instead of name and password."""
    login = _login(secured.token_id, secured.hmac, 'tokenauth="true"')
    _round_trip(spark, secured.options | login, "with-a-token", tmp_path)


@pytest.fixture
def own_token(spark: SparkSession, secured: Secured) -> Iterator[dict[str, str]]:
    """Gives Spark's process the token, as Spark's provider does where there is a Kerberos.

    A process can't lose a token again, and Spark asks for the settings of each one. So they stay
    there, for a server that nobody has.
    """
    jvm = jvm_of(spark)
    conf = jvm.org.apache.spark.SparkEnv.get().conf()
    servers = f"spark.kafka.clusters.{CLUSTER}.target.bootstrap.servers.regex"
    given = {
        f"spark.kafka.clusters.{CLUSTER}.auth.bootstrap.servers": secured.bootstrap,
        servers: secured.bootstrap,
        f"spark.kafka.clusters.{CLUSTER}.sasl.token.mechanism": "SCRAM-SHA-512",
    }
    for name, value in given.items():
        conf.set(name, value)
    text = jvm.org.apache.hadoop.io.Text
    token = jvm.org.apache.hadoop.security.token.Token(
        *(secured.token_id.encode(), secured.hmac.encode(), text(TOKEN_KIND), text(TOKEN_SERVICE))
    )
    jvm.org.apache.hadoop.security.UserGroupInformation.getCurrentUser().addToken(token)
    yield {k: v for k, v in secured.options.items() if k != "kafka.sasl.mechanism"}
    conf.set(servers, "nobody")


@pytest.mark.skipif(
    os.environ.get("KWIRE_SPARK_LANE") != "stock",
    reason="SparkEnv of Spark 4.1 isn't reachable from Python",
)
def test_with_a_token_among_sparks_credentials(
    spark: SparkSession, own_token: dict[str, str], tmp_path: Path
) -> None:
    """Nothing about the login is in the options: ``spark.kafka.clusters.*`` says whose token."""
    _round_trip(spark, own_token, "with-sparks-token", tmp_path)
