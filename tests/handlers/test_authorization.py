"""Every API asks for the rights that it asks for in Kafka, and hides what it hides there.

The table is that of compat_tests/test_authorization.py, which Apache Kafka passes too.
"""

from pathlib import Path

import pytest

from compat_tests import (
    authorization_of_cluster,
    authorization_of_groups,
    authorization_of_shares,
    authorization_of_streams,
    authorization_of_topics,
)
from compat_tests.authorization_bypasses import BYPASSES, a_pattern
from compat_tests.authorization_cases import (
    AUTHORIZATION,
    SETTINGS,
    Admin,
    Client,
    Things,
    check,
    codes,
)
from compat_tests.authorization_hiding import CHECKS
from kwire.errors import ErrorCode
from kwire.handlers import APIS, OWN_APIS
from kwire.protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
)
from kwire.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kwire.protocol.messages.push_telemetry import PushTelemetryRequest
from kwire.testing.kafka import Kafka

CASES = (
    *authorization_of_topics.CASES,
    *authorization_of_groups.CASES,
    *authorization_of_cluster.CASES,
    *authorization_of_shares.CASES,
    *authorization_of_streams.CASES,
    *authorization_of_cluster.OWN_CASES,
)
LOGINS = "test_nothing_else_is_served_before_it"
TOKENS = ("test_owners_and_renewers", "test_tokens_of_others")
ELSEWHERE = {
    "ListGroups": ("groups",),
    "ListTransactions": ("transactions",),
    "SaslHandshake": (LOGINS,),
    "SaslAuthenticate": (LOGINS,),
    "CreateDelegationToken": TOKENS,
    "RenewDelegationToken": TOKENS,
    "ExpireDelegationToken": TOKENS,
    "DescribeDelegationToken": TOKENS,
    "GetTelemetrySubscriptions": ("test_who_may_do_nothing_may_ask_for_subscriptions",),
    "PushTelemetry": ("test_who_may_do_nothing_may_ask_for_subscriptions",),
}
"""APIs without a row, for they leave out what is hidden, or need a login, and their tests."""


@pytest.fixture(scope="module")
def admin():
    """The admin of a broker with an authorizer."""
    with Kafka(SETTINGS) as kafka:
        admin = Admin(kafka.bootstrap)
        admin.find_coordinator("g")  # what it hides is told only where there is a coordinator
        admin.find_coordinator("x", key_type=1)
        yield admin
        admin.close()


@pytest.mark.parametrize("case", CASES, ids=str)
def test_each_api_asks_for_its_rights(admin, case):
    check(case, admin)


WAYS = [one for one in (*CHECKS, *BYPASSES) if one is not a_pattern]


@pytest.mark.parametrize("hides", WAYS, ids=lambda one: one.__name__)
def test_what_a_client_may_not_see_is_hidden(admin, hides):
    client = Client(admin, admin.bootstrap)
    try:
        hides(admin, client, 1)
    finally:
        client.close()


def test_a_pattern_finds_only_what_its_member_may_describe():
    """On a broker with few topics: those of many are matched in a thread, for a later answer."""
    with Kafka(SETTINGS) as kafka:
        admin = Admin(kafka.bootstrap)
        client = Client(admin, admin.bootstrap)
        try:
            a_pattern(admin, client, 1)
        finally:
            client.close()
            admin.close()


def test_who_may_do_nothing_may_ask_for_subscriptions(admin):
    """Of metrics: they tell nothing about the cluster. Kafka has them only with a reporter."""
    client = Client(admin, admin.bootstrap)
    try:
        told = client.ask(GetTelemetrySubscriptionsRequest(), 0)
        assert not told.error_code
        told = client.ask(PushTelemetryRequest(client_instance_id=told.client_instance_id), 0)
        assert not set(codes(told)) & AUTHORIZATION
    finally:
        client.close()


@pytest.mark.parametrize("users", [None, []])
def test_who_may_not_ask_for_all_users_of_scram_is_told_so(admin, users):
    """Kafka 4.4.0 never answers a null list without the right: a client waits for its timeout."""
    client = Client(admin, admin.bootstrap)
    try:
        told = client.ask(DescribeUserScramCredentialsRequest(users=users), 0)
        assert told.error_code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert told.results == []
    finally:
        client.close()


def test_the_table_has_every_api():
    """An API that is added is in the table, or its test is named here."""
    things = Things("t", bytes(16), "missing", "g", "x")
    in_table = {case.request(things).API_KEY for case in CASES}
    served = {key: api.name for key, api in {**APIS, **OWN_APIS}.items()}
    assert {served[key] for key in served if key not in in_table} == set(ELSEWHERE)
    root = Path(__file__).parents[2]
    paths = [path for folder in ("tests", "compat_tests") for path in (root / folder).rglob("*.py")]
    text = "".join(path.read_text(encoding="utf-8") for path in paths)
    assert all(f"def {name}(" in text for names in ELSEWHERE.values() for name in names)
