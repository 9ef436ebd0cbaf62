"""Every API asks for the rights that it asks for in Kafka, and hides what it hides there.

The table is that of compat_tests/test_authorization.py, which Apache Kafka passes too.
"""

import pytest

from compat_tests import authorization_of_groups, authorization_of_topics
from compat_tests.authorization_bypasses import BYPASSES
from compat_tests.authorization_cases import SETTINGS, Admin, Client, check
from compat_tests.authorization_hiding import CHECKS
from kwire.testing.kafka import Kafka

CASES = (*authorization_of_topics.CASES, *authorization_of_groups.CASES)


@pytest.fixture(scope="module")
def admin():
    """The admin of a broker with an authorizer."""
    with Kafka(SETTINGS) as kafka:
        admin = Admin(kafka.bootstrap)
        yield admin
        admin.close()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_api_asks_for_its_rights(admin, case):
    check(case, admin)


@pytest.mark.parametrize("hides", [*CHECKS, *BYPASSES], ids=lambda one: one.__name__)
def test_what_a_client_may_not_see_is_hidden(admin, hides):
    client = Client(admin, admin.bootstrap)
    try:
        hides(admin, client, 1)
    finally:
        client.close()
