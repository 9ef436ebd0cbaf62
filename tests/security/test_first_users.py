"""The SCRAM users that a new cluster begins with."""

from base64 import b64encode

import pytest

from kwire.config.settings import ConfigError
from kwire.metadata.features import CHANGES_VERSION, FeatureUpdate, UpgradeType, update_features
from kwire.metadata.image import ConfigResourceType
from kwire.metadata.scram import ScramCredentialChanged, credential_of, salted
from kwire.security.first_users import MADE, SETTING, add_first_users, first_users
from kwire.server import StartError
from tests.support.in_process import running_server

SALT = b"0123456789"


def _user(name="alice", iterations=4096):
    secret = salted("SCRAM-SHA-512", b"hush", SALT, iterations)
    parts = (b64encode(part).decode() for part in (SALT, secret))
    return "SCRAM-SHA-512=[name={},iterations={},salt={},saltedpassword={}]".format(
        name, iterations, *parts
    )


def test_users_are_written_as_kafka_writes_them():
    """With a salted password, or with a password that is salted now."""
    text = f'{_user()} ; SCRAM-SHA-256=[name="bob",password=x=y]'
    alice, bob = first_users(text)
    secret = salted("SCRAM-SHA-512", b"hush", SALT, 4096)
    assert alice == ("SCRAM-SHA-512", "alice", credential_of("SCRAM-SHA-512", secret, SALT, 4096))
    assert (bob.mechanism, bob.user, bob.credential.iterations) == ("SCRAM-SHA-256", "bob", 4096)
    secret = salted("SCRAM-SHA-256", b"x=y", bob.credential.salt, 4096)
    assert bob.credential == credential_of("SCRAM-SHA-256", secret, bob.credential.salt, 4096)


@pytest.mark.parametrize(
    "text",
    [
        "alice=hush",
        "SCRAM-SHA-1=[name=a,password=hush]",
        "SCRAM-SHA-256=[password=hush]",
        "SCRAM-SHA-256=[name=a,salt=hush!,saltedpassword=hush]",
        "SCRAM-SHA-256=[name=a,iterations=1,password=hush]",
        "SCRAM-SHA-256=[name=a,hush]",
    ],
)
def test_a_mistake_is_told_without_secrets(text):
    """And with how it is written."""
    with pytest.raises(ConfigError, match="must be users as in SCRAM-SHA-512=") as caught:
        first_users(text)
    assert "hush" not in str(caught.value)


async def test_they_count_while_there_is_no_user(tmp_path):
    """A user that was deleted doesn't come back with the next start, if there is another."""
    async with running_server(tmp_path, {SETTING: _user()}) as running:
        known = running.broker.image.scram_credentials
        assert list(known) == [("SCRAM-SHA-512", "alice")]
    async with running_server(tmp_path, {SETTING: _user("bob")}) as running:
        assert running.broker.image.scram_credentials == known


async def test_who_was_deleted_does_not_come_back(tmp_path):
    """Not even the last user. Another one lets in who has locked everybody out."""
    async with running_server(tmp_path, {SETTING: _user()}) as running:
        gone = ScramCredentialChanged("SCRAM-SHA-512", "alice", None)
        await running.broker.commit(lambda _: [gone])
    async with running_server(tmp_path, {SETTING: _user()}) as running:
        assert not running.broker.image.scram_credentials
        assert running.broker.image.config(ConfigResourceType.BROKER, "") == {MADE: "alice"}
    both = f"{_user()};{_user('bob')}"
    async with running_server(tmp_path, {SETTING: both}) as running:
        assert list(running.broker.image.scram_credentials) == [("SCRAM-SHA-512", "bob")]
        assert running.broker.image.config(ConfigResourceType.BROKER, "") == {MADE: "alice,bob"}


async def test_an_old_cluster_gets_none(tmp_path, caplog):
    """Whose brokers may not know credentials; the log says so."""
    async with running_server(tmp_path) as running:
        lower = FeatureUpdate(CHANGES_VERSION, 1, UpgradeType.UNSAFE_DOWNGRADE)
        await running.broker.commit(lambda image: update_features(image, [lower]))
        config = running.broker.config.load({SETTING: _user()})
        image = running.broker.image
        assert await add_first_users(config, None, image) is image
    assert "needs level" in caplog.text


async def test_a_mistake_stops_the_start(tmp_path):
    """In one line."""
    with pytest.raises(ExceptionGroup) as caught:
        async with running_server(tmp_path, {SETTING: "nonsense"}):
            pass
    [error] = caught.value.exceptions
    assert isinstance(error, StartError)
    assert f"configuration {SETTING}: must be users" in str(error)
