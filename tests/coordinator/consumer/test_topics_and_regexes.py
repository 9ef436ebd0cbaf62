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


def test_a_partition_is_near_where_it_has_a_replica():
    """Each partition for itself; nothing is near where no racks are known."""
    topic = Topic("t", b"t" * 16, 2, (frozenset({"x", "y"}), frozenset({"y"})))
    found = [[topic.is_near(index, rack) for index in range(2)] for rack in ("x", "y", "z", None)]
    assert found == [[True, False], [True, True], [False, False], [False, False]]
    assert not Topic("t", b"t" * 16, 2).is_near(1, "x")


def _names(names, revision=1):
    topics = [Topic(name, name.encode().ljust(16)[:16], 1) for name in names]
    return TopicSet(topics, revision)


def _ask(matches, regexes_, topics):
    """What is found at once, after the questions that there are have been answered."""
    _, questions = matches.look_up(regexes_, topics)
    matches.remember(regexes.answer(questions), matches.version)
    found, left = matches.look_up(regexes_, topics)
    assert left == []
    return found, questions


def test_an_expression_matches_whole_names():
    """As RE2/J's ``matches`` does."""
    topics = _names(["orders", "my-orders", "orders-2", "órders"])
    found, _ = _ask(regexes.RegexMatches(), ["orders(-\\d)?", ".rders"], topics)
    assert found == {"orders(-\\d)?": {"orders", "orders-2"}, ".rders": {"orders", "órders"}}


def test_only_new_names_are_matched_again():
    """An expression was matched against the others; topics that are gone don't count any more."""
    matches = regexes.RegexMatches()
    _ask(matches, ["o.*"], _names(["orders", "old", "others"]))
    found, asked = _ask(matches, ["o.*"], _names(["orders", "others", "odd", "new"], 2))
    assert found == {"o.*": {"orders", "others", "odd"}}
    assert [question.names for question in asked] == [{"odd", "new"}]
    found, asked = _ask(matches, ["o.*"], _names(["odd"], 3))
    assert (found, asked) == ({"o.*": {"odd"}}, [])
    assert _ask(matches, ["o.*"], _names(["odd"], 4))[1] == []


def test_an_answer_that_comes_late_is_right_all_the_same():
    """Topics have changed since the question."""
    matches = regexes.RegexMatches()
    _, questions = matches.look_up(["o.*"], _names(["orders", "old"]))
    version = matches.version
    matches.look_up([], _names(["orders", "odd"], 2))
    matches.remember(regexes.answer(questions), version)
    found, asked = _ask(matches, ["o.*"], _names(["orders", "odd"], 2))
    assert found == {"o.*": {"orders", "odd"}}
    assert [question.names for question in asked] == [{"odd"}]


def test_what_is_remembered_is_limited():
    """Expressions as well as former names of topics; what was forgotten is matched again."""
    matches = regexes.RegexMatches()
    many = [f"t{number}" for number in range(regexes.FOUND_AT_MOST + 5)]
    _ask(matches, many[:5], _names(["t1"]))
    for regex in many:
        matches.remember({regex: frozenset()}, matches.version)
    assert [q.regex for q in matches.look_up(many[:6], _names(["t1"]))[1]] == many[:5]
    for revision in range(2, regexes.NAMES_AT_MOST + 3):
        matches.look_up([], _names([f"n{revision}"], revision))
    [question] = matches.look_up(["t9"], _names(["t9"], 100))[1]
    assert question == regexes.Question("t9", frozenset({"t9"}))


def test_an_expression_of_another_library_matches_nothing():
    """It was taken by a broker with RE2/J: the group goes on without it."""
    asked = [regexes.Question("(?<=a)b", frozenset({"b"}))]
    assert regexes.answer(asked) == {"(?<=a)b": frozenset()}


@pytest.mark.parametrize(
    ("regex", "why"),
    [
        ("a" * (regexes.LONGEST + 1), "longer than 10000 characters"),
        ("(\\pL{0,20}[-0-9]){0,40}", "pattern too large"),
    ],
)
def test_an_expression_is_limited(regex, why):
    """Its length, and the memory of its automaton; it isn't told in full."""
    with pytest.raises(KafkaError, match=why) as refused:
        regexes.check_regex(regex)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert len(refused.value.message) < 250


def test_a_long_expression_is_not_matched_on_the_event_loop():
    """RE2 may need 100 ms to match it against one name."""
    long = "(a?b?)*" * 100
    assert regexes.Question(long, frozenset(["a"])).cost > regexes.QUICK_COST
    assert regexes.Question("a.*", frozenset(["a"])).cost < regexes.QUICK_COST


@pytest.mark.parametrize("regex", ["a(", "(?=a)", "a{2000}", "\\1"])
def test_what_is_no_expression_of_re2_is_refused(regex):
    """Look-ahead and back references among them."""
    with pytest.raises(KafkaError) as refused:
        regexes.check_regex(regex)
    assert refused.value.code is ErrorCode.INVALID_REGULAR_EXPRESSION
    assert regex in refused.value.message


def test_without_the_library_the_client_is_told_what_to_install(monkeypatch):
    """One that was installed without its dependencies."""
    monkeypatch.setitem(sys.modules, "re2", None)
    with pytest.raises(KafkaError, match="install google-re2"):
        regexes.check_regex("never-seen-before.*")
