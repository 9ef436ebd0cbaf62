"""Delegation tokens as the controller makes, keeps and removes them."""

import pytest

from kwire.errors import ErrorCode, KafkaError
from kwire.metadata import tokens as module
from kwire.metadata.changes import apply, from_json, size_of, snapshot, to_json
from kwire.metadata.difference import difference
from kwire.metadata.features import (
    CHANGES_VERSION,
    FeatureUpdate,
    UpgradeType,
    initial_features,
    update_features,
)
from kwire.metadata.image import MetadataImage
from kwire.metadata.tokens import (
    Lifetimes,
    Secret,
    TokenChanged,
    check_room,
    expiring,
    find_token,
    new_token,
    renewed,
    salt_of,
    secret_of,
    without_expired,
)

ALICE, BOB, EVE = ("User", "alice"), ("User", "bob"), ("User", "eve")
LIVES = Lifetimes(max_ms=1000, expiry_ms=100)


def _token(renewers=(BOB,), asked_ms=-1, owner=ALICE):
    return new_token(owner, ALICE, renewers, asked_ms, 5000, LIVES)


def _whole(token_id):
    secret = secret_of("key", token_id)
    return _token()._replace(
        digest=secret.digest, credentials=secret.credentials(salt_of("key", token_id))
    )


def _code(wanted):
    return pytest.raises(KafkaError, check=lambda error: error.code == wanted)


@pytest.mark.parametrize("name", ["al\ud800ice", "a" * 32_768])
@pytest.mark.parametrize("who", ["owner", "requester", "renewers"])
def test_a_stored_name_that_no_message_can_carry_takes_its_token_with_it(name, who):
    """The other tokens are described as ever."""
    odd = ("User", name)
    wrong = _whole("odd")._replace(**{who: (BOB, odd) if who == "renewers" else odd})
    stored = to_json([TokenChanged("odd", wrong), TokenChanged("good", _whole("good"))])
    assert from_json(stored) == [TokenChanged("odd", None), TokenChanged("good", _whole("good"))]


def test_a_token_outlives_the_text_of_the_store():
    """Made, renewed, removed; a snapshot and the difference of two images have it too."""
    empty = apply(MetadataImage(), initial_features(), 1)
    change = TokenChanged("id", _whole("id"))
    image = apply(empty, from_json(to_json([change])), 2)
    assert image.tokens == {"id": change.token}
    assert apply(MetadataImage(), from_json(to_json(snapshot(image))), 2) == image
    later = TokenChanged("id", change.token._replace(expires_ms=5500))
    renewed_image = apply(image, from_json(to_json([later])), 3)
    assert difference(image, renewed_image) == [later]
    gone = apply(renewed_image, from_json(to_json([TokenChanged("id", None)])), 4)
    assert gone.tokens == {}
    assert difference(renewed_image, gone) == [TokenChanged("id", None)]
    assert size_of([change]) >= len(to_json([change])) > 500


def test_the_metadata_has_no_secret():
    """Neither the HMAC nor the key is in the text of the store, or in the text of a secret."""
    secret = secret_of("key", "id")
    text = to_json([TokenChanged("id", _whole("id"))])
    assert secret.hmac.hex() not in text
    assert secret.password.decode() not in text
    assert secret.hmac.hex() not in repr(secret) + repr(_whole("id"))


def test_the_hmac_is_kafkas():
    """HMAC-SHA-512 of the id, as javax.crypto.Mac computes it (RFC 4231, test case 2)."""
    secret = secret_of("Jefe", "what do ya want for nothing?")
    assert secret.hmac.hex().startswith("164b7a7bfcf819e2e395fbe73b56e0a387bd64222e831fd6")


@pytest.mark.parametrize(("asked_ms", "lives_ms"), [(-1, 1000), (0, 1000), (50, 50), (5000, 1000)])
def test_how_long_a_token_lives(asked_ms, lives_ms):
    """As asked for, at most ``delegation.token.max.lifetime.ms``."""
    token = _token(asked_ms=asked_ms)
    assert token.max_ms == 5000 + lives_ms
    assert token.expires_ms == min(5100, token.max_ms)
    assert not token.is_expired(token.expires_ms)
    assert token.is_expired(token.expires_ms + 1)


def test_who_may_renew_it_and_for_how_long():
    """The owner and the renewers, never beyond its longest life, never after its end."""
    token = _token()
    assert renewed(token, BOB, -1, 5050, 100) == 5150
    assert renewed(token, ALICE, 20, 5050, 100) == 5070
    assert renewed(token._replace(expires_ms=5950), ALICE, -1, 5950, 100) == 6000
    with _code(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH):
        renewed(token, EVE, -1, 5050, 100)
    with _code(ErrorCode.DELEGATION_TOKEN_EXPIRED):
        renewed(token, EVE, -1, 5101, 100)


def test_who_may_end_it_and_when():
    """At once, even after its end; otherwise at a time within its longest life."""
    token = _token()
    assert expiring(token, BOB, -1, 9000) is None
    assert expiring(token, ALICE, 0, 5000) == 5000
    assert expiring(token, ALICE, (1 << 63) - 1, 5000) == 6000
    with _code(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH):
        expiring(token, EVE, -1, 5000)
    with _code(ErrorCode.DELEGATION_TOKEN_EXPIRED):
        expiring(token, ALICE, 10, 5101)


def test_only_users_have_tokens():
    """A login by token makes a user of the owner's name, so other types would take its name."""
    for renewers, owner in (((("Group", "x"),), ALICE), ((), ("Group", "alice"))):
        with _code(ErrorCode.INVALID_PRINCIPAL_TYPE):
            _token(renewers, owner=owner)


def test_tokens_are_bounded(monkeypatch):
    """In the cluster, for each who asks, by renewers and by the length of names."""
    known = {"a": _token(), "b": _token()}
    monkeypatch.setattr(module, "MOST_PER_REQUESTER", 2)
    check_room(known, BOB)
    with _code(ErrorCode.POLICY_VIOLATION):
        check_room(known, ALICE)
    monkeypatch.setattr(module, "MOST_TOKENS", 2)
    with _code(ErrorCode.POLICY_VIOLATION):
        check_room(known, BOB)
    for renewers in ([BOB] * 101, [("User", "x" * 1001)]):
        with _code(ErrorCode.POLICY_VIOLATION):
            _token(renewers)


def test_a_token_is_found_by_its_hmac():
    """Another HMAC finds none."""
    known = {"id": _whole("id"), "other": _whole("other")}
    assert find_token(known, secret_of("key", "other")) == "other"
    with _code(ErrorCode.DELEGATION_TOKEN_NOT_FOUND):
        find_token(known, Secret(b"x" * 64))
    with _code(ErrorCode.DELEGATION_TOKEN_NOT_FOUND):
        find_token(known, Secret(b"too short"))


def test_expired_tokens_are_removed():
    """Others stay."""
    known = {"old": _token(), "young": _token()._replace(expires_ms=5900)}
    assert without_expired(known, 5101) == [TokenChanged("old", None)]


def test_the_level_stays_while_there_are_tokens():
    """A broker that doesn't know the change couldn't follow."""
    image = apply(MetadataImage(), [*initial_features(), TokenChanged("id", _token())], 1)
    lower = FeatureUpdate(CHANGES_VERSION, 1, UpgradeType.UNSAFE_DOWNGRADE)
    with pytest.raises(KafkaError, match="There are delegation tokens"):
        update_features(image, [lower])
