"""Every API asks for the rights that it asks for in Apache Kafka, which passes the same table.

``KWIRE_AUTHORIZATION=kafka`` runs the table against an Apache Kafka of its own.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from compat_tests import (
    authorization_of_cluster,
    authorization_of_groups,
    authorization_of_shares,
    authorization_of_streams,
    authorization_of_topics,
)
from compat_tests.apache_kafka import ApacheKafka
from compat_tests.authorization_bypasses import BYPASSES
from compat_tests.authorization_cases import SETTINGS, Admin, Case, Client, check
from compat_tests.authorization_hiding import CHECKS, Check
from kwire.testing.process import BrokerProcess

CASES = (
    *authorization_of_topics.CASES,
    *authorization_of_groups.CASES,
    *authorization_of_cluster.CASES,
    *authorization_of_shares.CASES,
    *authorization_of_streams.CASES,
)
TRIES = 300


@pytest.fixture(scope="module")
def admin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admin]:
    """The admin of a broker with an authorizer."""
    directory: Path = tmp_path_factory.mktemp("authorization")
    is_kafka = os.environ.get("KWIRE_AUTHORIZATION") == "kafka"
    kind = ApacheKafka if is_kafka else BrokerProcess
    with kind(directory, SETTINGS) as broker:
        admin = Admin(broker.bootstrap)
        yield admin
        admin.close()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_api_asks_for_its_rights(admin: Admin, case: Case) -> None:
    """Without any right, with DESCRIBE only, and with what it needs."""
    check(case, admin, TRIES)


@pytest.mark.parametrize("hides", [*CHECKS, *BYPASSES], ids=lambda one: one.__name__)
def test_what_a_client_may_not_see_is_hidden(admin: Admin, hides: Check) -> None:
    """In each response that could tell it, and on ways that lead around an ACL."""
    client = Client(admin, admin.bootstrap)
    try:
        hides(admin, client, TRIES)
    finally:
        client.close()
