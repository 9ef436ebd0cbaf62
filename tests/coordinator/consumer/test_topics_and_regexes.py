"""The hash of topics, and regular expressions."""

import sys

import pytest

from kwire.coordinator.consumer import regexes
from kwire.coordinator.consumer.topics import Topic, TopicSet, hash_topics
from kwire.errors import ErrorCode, KafkaError

ORDERS = Topic("orders", b"o" * 16, 3, (frozenset({"x"}),) * 3)


@pytest.mark.parametrize(
    "change",
    [
        {"topic_id": b"n" * 16},
        {"partitions": 4},
        {"racks": (frozenset({"y"}),) * 3},
        {"name": "others"},
    ],
)
def test_a_topic_that_is_another_has_another_hash(change):
    """Created anew, grown, or moved to other racks."""
    known = hash_topics(["orders", "others"], TopicSet([ORDERS]))
    assert hash_topics(["orders", "others"], TopicSet([ORDERS._replace(**change)])) != known


def test_topics_that_do_not_matter_do_not_change_the_hash():
    """Neither others, nor the order of names, nor names of topics that don't exist."""
    topics = TopicSet([ORDERS, Topic("others", b"x" * 16, 1)])
    known = hash_topics(["orders"], TopicSet([ORDERS]))
    assert hash_topics(["missing", "orders"], topics) == known
    assert hash_topics(["missing"], topics) == 0


def test_an_expression_matches_whole_names():
    """As RE2/J's ``matches`` does."""
    names = ["orders", "my-orders", "orders-2", "órders"]
    assert regexes.resolve("orders(-\\d)?", names) == {"orders", "orders-2"}
    assert regexes.resolve(".rders", names) == {"orders", "órders"}


@pytest.mark.parametrize("regex", ["a(", "(?=a)", "a{2000}", "\\1"])
def test_what_is_no_expression_of_re2_is_refused(regex):
    """Look-ahead and back references among them."""
    with pytest.raises(KafkaError) as refused:
        regexes.check_regex(regex)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert regex in refused.value.message


def test_without_the_library_the_client_is_told_what_to_install(monkeypatch):
    """The extra that has it."""
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(KafkaError, match=r"kwire\[regex\]"):
        regexes.check_regex("never-seen-before.*")
