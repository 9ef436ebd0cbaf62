"""Key stores that a listener is given while its broker runs: which are refused, which are taken.

``SSL`` is the listener among brokers. With ``KWIRE_SECURED=kafka`` the same tests run on Apache
Kafka.
"""

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from compat_tests.raw_client import RawConnection
from compat_tests.secured import SecuredBroker, secured_broker
from kwire.errors import ErrorCode
from kwire.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from kwire.testing.waiting import wait_until
from tests.support.certificates import Authority, Certified

BROKER, SET = 4, 0
LISTENERS = ("SASL_SSL", "SSL")


class Place(NamedTuple):
    """A running broker, and a client of its listener for admins."""

    secured: SecuredBroker
    admin: RawConnection
    directory: Path

    def alter(self, listener: str, setting: str, value: str) -> int:
        """Set a dynamic config of a listener, as kafka-configs does; the error code."""
        config = AlterableConfig(
            name=f"listener.name.{listener.lower()}.{setting}", config_operation=SET, value=value
        )
        resource = AlterConfigsResource(resource_type=BROKER, resource_name="1", configs=[config])
        [found] = self.admin.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1).responses
        return int(found.error_code)

    def file(self, certified: Certified) -> str:
        """A key store."""
        return str(certified.write_pem(self.directory / f"{id(certified)}.pem"))

    def shown(self, listener: str) -> str:
        """The certificate that a client of a listener is shown."""
        host, _, port = self.secured.bootstrap[listener].rpartition(":")
        return ssl.get_server_certificate((host, int(port)), timeout=30)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A broker whose own listener is SSL."""
    directory = tmp_path_factory.mktemp("secured")
    with secured_broker(directory, {"inter.broker.listener.name": "SSL"}) as (secured, plain):
        admin = RawConnection(plain)
        yield Place(secured, admin, directory)
        admin.close()


def _nonsense(place: Place) -> str:
    path = place.directory / "nonsense.pem"
    path.touch(mode=0o600)
    path.write_text("nonsense")
    return str(path)


def _of(**how: object) -> Callable[[Place], str]:
    """A key store with a certificate by the listener's own CA."""
    name = str(how.pop("name", "server"))
    return lambda place: place.file(place.secured.authority.sign(name, **how))  # type: ignore[arg-type]


REFUSED = {
    "no such file": lambda _: "/no/such/file.pem",
    "nonsense": _nonsense,
    "another name": _of(name="other"),
    "a name less": _of(hosts=()),
}
REFUSED_AMONG_BROKERS = {
    "ended": _of(days=-1),
    "another CA": lambda place: place.file(Authority("another CA").sign("server")),
}


@pytest.mark.parametrize(
    ("listener", "kind"),
    [(listener, kind) for listener in LISTENERS for kind in REFUSED]
    + [("SSL", kind) for kind in REFUSED_AMONG_BROKERS],
)
def test_a_key_store_that_is_refused(place: Place, listener: str, kind: str) -> None:
    """Whoever sets it is told, and clients are shown the old certificate."""
    before = place.shown(listener)
    value = {**REFUSED, **REFUSED_AMONG_BROKERS}[kind](place)
    code = place.alter(listener, "ssl.keystore.location", value)
    assert code == ErrorCode.INVALID_REQUEST
    assert place.shown(listener) == before


def test_a_trust_store_that_does_not_trust_the_listeners_own_keys(place: Place) -> None:
    """Brokers with it would connect to no other; on a listener of clients it is taken."""
    path = place.directory / "another-ca.pem"
    path.write_text(Authority("another CA").certificate_pem)
    code = place.alter("SSL", "ssl.truststore.location", str(path))
    assert code == ErrorCode.INVALID_REQUEST
    assert place.alter("SASL_SSL", "ssl.truststore.location", str(path)) == 0


@pytest.mark.parametrize("listener", LISTENERS)
@pytest.mark.parametrize("hosts", [("localhost",), ("localhost", "kafka.example.org")])
def test_a_key_store_that_is_taken(place: Place, listener: str, hosts: tuple[str, ...]) -> None:
    """New keys for the same names, or for more, count for new connections."""
    certified = place.secured.authority.sign("server", hosts=hosts)
    assert place.alter(listener, "ssl.keystore.location", place.file(certified)) == 0
    wait_until(
        lambda: place.shown(listener).split() == certified.certificate_pem.split(),
        what="the new certificate",
    )
