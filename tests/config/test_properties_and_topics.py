"""Java's .properties syntax, and the broker settings that stand behind a topic's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.config import BrokerConfig, parse_properties, settings, topic_settings
from kwire.config.properties import located_properties
from kwire.config.settings import BROKER, TOPIC
from kwire.config.synonyms import SYNONYMS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=1\nb = 2\nc:3\nd 4\ne : 5", {"a": "1", "b": "2", "c": "3", "d": "4", "e": "5"}),
        ("# x\n! y\n\n  \na=1", {"a": "1"}),
        ("list=one,\\\n     two,\\\n  three", {"list": "one,two,three"}),
        ("a=x\\ty\\u0041\\z", {"a": "x\tyAz"}),
        ("a\\ b\\==1", {"a b=": "1"}),
        ("a", {"a": ""}),
        ("a=1\r\na=2\rb=3", {"a": "2", "b": "3"}),
        ("path=C:\\\\dir", {"path": "C:\\dir"}),
        ("a=b=c", {"a": "b=c"}),
        ("a=1 \\", {"a": "1 "}),
        ("# comment \\\na=1", {"a": "1"}),
    ],
)
def test_syntax(text, expected):
    """java.util.Properties reads the same."""
    assert parse_properties(text) == expected


def test_where_a_setting_stands():
    """The number of the line it ends on, for who is to find it."""
    text = "# x\na=1\r\nb=\\\n 2\nc"
    assert located_properties(text) == {"a": ("1", 2), "b": ("2", 4), "c": ("", 5)}


def _escaped(text):
    special = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
    special |= {c: "\\" + c for c in " =:#!"}
    return "".join(special.get(character, character) for character in text)


_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=20)


@given(st.dictionaries(_TEXT.filter(bool), _TEXT, max_size=5))
def test_whatever_is_escaped_is_read_back(properties):
    """Every key and value can be written so that it is read as it was."""
    lines = [f"{_escaped(key)}={_escaped(value)}" for key, value in properties.items()]
    assert parse_properties("\n".join(lines)) == properties


def test_synonyms_name_settings_that_exist():
    """Every synonym is a topic setting and broker settings."""
    assert SYNONYMS.keys() <= settings(TOPIC).keys()
    behind = {synonym.name for synonyms in SYNONYMS.values() for synonym in synonyms}
    assert behind <= settings(BROKER).keys()


def test_topic_settings_come_from_the_topic_the_broker_or_the_default():
    """A topic's own value counts first, then the broker's, in the unit of the topic."""
    broker = BrokerConfig.load({"log.retention.hours": "2", "log.segment.bytes": "2000000"})
    effective = topic_settings({"segment.bytes": "3000000"}, broker)
    assert effective["segment.bytes"] == 3_000_000
    assert effective["retention.ms"] == 7_200_000
    assert effective["flush.ms"] == (1 << 63) - 1
    assert effective["remote.storage.enable"] is False
    assert effective.keys() == settings(TOPIC).keys()


def test_the_finer_unit_counts_first():
    """log.retention.ms before minutes before hours; -1 means no limit in any unit."""
    all_three = {"log.retention.hours": "1", "log.retention.minutes": "2"}
    assert topic_settings({}, BrokerConfig.load(all_three))["retention.ms"] == 120_000
    all_three["log.retention.ms"] = "3"
    assert topic_settings({}, BrokerConfig.load(all_three))["retention.ms"] == 3
    unlimited = BrokerConfig.load({"log.retention.hours": "-1"})
    assert topic_settings({}, unlimited)["retention.ms"] == -1
