"""Values are read, checked and printed as Kafka's ConfigDef does it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kwire.config.settings import (
    BROKER,
    CLIENT_METRICS,
    DYNAMIC_BROKER,
    GROUP,
    TOPIC,
    ConfigError,
    settings,
)
from kwire.config.values import FORMS, parse_value, print_value


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("BOOLEAN", "TRUE", True),
        ("BOOLEAN", " false ", False),
        ("INT", " +5 ", 5),
        ("INT", "-2147483648", -(1 << 31)),
        ("LONG", "9223372036854775807", (1 << 63) - 1),
        ("DOUBLE", "0.5f", 0.5),
        ("DOUBLE", "1e-1", 0.1),
        ("DOUBLE", ".5", 0.5),
        ("LIST", " a , b ", ["a", "b"]),
        ("LIST", "", []),
        ("STRING", " x ", "x"),
        ("PASSWORD", "secret", "secret"),
    ],
)
def test_texts_that_java_reads(kind, text, value):
    """What Kafka accepts is accepted, blanks around it included."""
    assert parse_value("some.name", kind, text) == value


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("BOOLEAN", "yes"),
        ("BOOLEAN", ""),
        ("INT", "2147483648"),
        ("INT", "1_000"),
        ("INT", "0x10"),
        ("INT", "1e3"),
        ("INT", ""),
        ("INT", "9" * 5000),
        ("SHORT", "40000"),
        ("LONG", "9223372036854775808"),
        ("DOUBLE", "nan"),
        ("DOUBLE", "1_0"),
        ("DOUBLE", ""),
    ],
)
def test_texts_that_java_refuses(kind, text):
    """A bad value names the setting, itself and what is allowed."""
    with pytest.raises(ConfigError) as caught:
        parse_value("some.name", kind, text)
    assert "some.name" in str(caught.value)
    assert f"Invalid value {text} for" in str(caught.value)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5"),
        (0.0, "0.0"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (1e-4, "1.0E-4"),
        (1e7, "1.0E7"),
        (9999999.0, "9999999.0"),
        (-2.5e-5, "-2.5E-5"),
        (123456789.0, "1.23456789E8"),
        (True, "true"),
        (["a", "b"], "a,b"),
        (None, None),
        (7, "7"),
    ],
)
def test_printing(value, text):
    """Numbers are printed as Java prints them, lists with commas alone."""
    assert print_value(value) == text


@given(st.floats(allow_nan=False))
def test_doubles_survive_printing(number):
    """A double that is printed and read again is the same."""
    assert parse_value("x", "DOUBLE", print_value(number) or "") == number


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("retention.ms", ["-1", "0"], ["-2", "abc"]),
        ("segment.bytes", ["1048576"], ["1048575"]),
        ("compression.gzip.level", ["-1", "1", "9"], ["0", "10"]),
        ("min.cleanable.dirty.ratio", ["0", "1"], ["1.1", "-0.1"]),
        ("cleanup.policy", ["", "compact, delete"], ["foo", "Delete", "delete,"]),
        ("compression.type", ["zstd"], ["ZSTD", "none", ""]),
        (
            "leader.replication.throttled.replicas",
            ["", "*", "0:1", "0:1,1:2"],
            ["none", "0:1:2", "*,0:1", "0:x"],
        ),
    ],
)
def test_allowed_values_of_topics(name, good, bad):
    """What Kafka 4.3.1 accepts and refuses in CreateTopics, so does a topic setting."""
    setting = settings(TOPIC)[name]
    for text in good:
        setting.parse(text)
    for text in bad:
        with pytest.raises(ConfigError):
            setting.parse(text)


@pytest.mark.parametrize(
    ("scope", "name", "good", "bad"),
    [
        (GROUP, "share.auto.offset.reset", ["earliest", "by_duration:PT1H"], ["by_duration:x"]),
        (GROUP, "share.auto.offset.reset", ["by_duration:P1DT0.5S"], ["by_duration:P", "now"]),
        (BROKER, "max.connections.per.ip.overrides", ["", "h:1,i:2"], ["foo", "h:"]),
        (DYNAMIC_BROKER, "leader.replication.throttled.rate", ["0"], ["-1"]),
    ],
)
def test_settings_with_a_form_of_their_own(scope, name, good, bad):
    """Texts with a grammar are checked against it."""
    for text in good:
        settings(scope)[name].parse(text)
    for text in bad:
        with pytest.raises(ConfigError):
            settings(scope)[name].parse(text)


def test_every_form_belongs_to_a_setting():
    """No form is left over from a setting that is gone."""
    scopes = (BROKER, DYNAMIC_BROKER, TOPIC, GROUP, CLIENT_METRICS)
    assert FORMS.keys() <= {name for scope in scopes for name in settings(scope)}
