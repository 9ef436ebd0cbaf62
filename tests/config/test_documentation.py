"""What settings are for: every one has a text, short, and true of whether it has an effect."""

import pytest

from kwire.config.documentation import LONGEST, NO_EFFECT, documentation
from kwire.config.settings import (
    BROKER,
    CLIENT_METRICS,
    DYNAMIC_BROKER,
    GROUP,
    TOPIC,
    ConfigError,
    settings,
)
from kwire.config.without_effect import TOPICS_WITHOUT_EFFECT, has_effect, is_among
from kwire.log.log_config import LogConfig

SCOPES = (BROKER, DYNAMIC_BROKER, TOPIC, GROUP, CLIENT_METRICS)


@pytest.mark.parametrize("scope", SCOPES)
def test_every_setting_has_a_text(scope):
    """In the order of the table, and nothing else has one."""
    assert list(documentation(scope)) == list(settings(scope))


@pytest.mark.parametrize("scope", SCOPES)
def test_texts_are_short_sentences(scope):
    """One line each, which ends with a full stop; units are said."""
    for name, text in documentation(scope).items():
        assert len(text) <= LONGEST, name
        assert text.endswith("."), name
        assert text.isprintable(), name
        assert text.isascii(), name
        if name.endswith(".ms") and not text.startswith(NO_EFFECT):
            assert " ms" in text, name


def test_no_two_settings_have_the_same_text():
    """What says the same of two says too little of one."""
    for scope in SCOPES:
        texts = list(documentation(scope).values())
        assert len(set(texts)) == len(texts)


def test_what_has_no_effect_says_so():
    """By the list that the sources are compared with; of topics by what logs are made from."""
    assert (
        documentation(BROKER)["num.io.threads"] == NO_EFFECT + "how many threads answer requests."
    )
    assert documentation(BROKER)["security.providers"].startswith(NO_EFFECT + "Java")
    for scope in SCOPES:
        for name, text in documentation(scope).items():
            assert text.startswith(NO_EFFECT) is not has_effect(scope, name)
    fields = set(LogConfig.__dataclass_fields__)
    for name in settings(TOPIC):
        goes_by = {name.replace(".", "_"), name.removeprefix("message.").replace(".", "_")} & fields
        named_otherwise = name.startswith("compression.") or name in (
            "cleanup.policy",
            "errors.deadletterqueue.group.enable",
            "follower.replication.throttled.replicas",
            "leader.replication.throttled.replicas",
            "message.timestamp.type",
            "unclean.leader.election.enable",
        )
        assert has_effect(TOPIC, name) is (bool(goes_by) or named_otherwise), name
    for line in TOPICS_WITHOUT_EFFECT:
        assert any(is_among(name, (line,)) for name in settings(TOPIC)), line


def test_texts_are_shared():
    """However many resources are described."""
    assert documentation(TOPIC) is documentation(TOPIC)


def test_a_bad_value_is_told_what_the_setting_is_for():
    """In one line, after what is wrong."""
    with pytest.raises(ConfigError) as caught:
        settings(TOPIC)["retention.ms"].parse("-5")
    assert str(caught.value) == (
        "Invalid value -5 for configuration retention.ms: must be at least -1 "
        "(How many ms records are kept, if the policy has delete; -1 means without limit.)"
    )
