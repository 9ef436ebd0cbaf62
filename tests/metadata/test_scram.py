"""SCRAM credentials as the controller alters and keeps them."""

import pytest

from kwire.errors import ErrorCode
from kwire.metadata import scram
from kwire.metadata.changes import apply, from_json, snapshot, to_json
from kwire.metadata.features import (
    CHANGES_VERSION,
    FeatureUpdate,
    UpgradeType,
    initial_features,
    update_features,
)
from kwire.metadata.image import MetadataImage
from kwire.metadata.scram import Alteration, Deletion, ScramCredentialChanged, Upsertion

GOOD = Upsertion("alice", 1, 4096, b"salt", b"salted")


def alter(known, deletions, upsertions):
    """The changes of one request, and each user's error."""
    alteration = Alteration(known)
    for asked in (*deletions, *upsertions):
        alteration.decide_next(asked)
    return list(alteration.changes.values()), alteration.results


def _image(*upsertions):
    changes, _ = alter({}, [], upsertions)
    return apply(MetadataImage(), [*initial_features(), *changes], 1)


def test_a_credential_outlives_the_text_of_the_store():
    """Set, replaced, deleted; a snapshot has it too."""
    image = _image(GOOD, GOOD._replace(user="bob", mechanism=2))
    assert image.scram_credentials["SCRAM-SHA-256", "alice"].iterations == 4096
    assert apply(MetadataImage(), from_json(to_json(snapshot(image))), 1) == image
    gone = ScramCredentialChanged("SCRAM-SHA-256", "alice", None)
    [again] = from_json(to_json([gone]))
    assert set(apply(image, [again], 2).scram_credentials) == {("SCRAM-SHA-512", "bob")}
    assert "salt" not in repr(image.scram_credentials["SCRAM-SHA-512", "bob"])


@pytest.mark.parametrize(
    ("asked", "code"),
    [
        (GOOD._replace(user=""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (GOOD._replace(mechanism=0), ErrorCode.UNSUPPORTED_SASL_MECHANISM),
        (GOOD._replace(iterations=4095), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (GOOD._replace(iterations=16385), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (GOOD._replace(salt=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (GOOD._replace(salted_password=b""), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (GOOD._replace(salted_password=bytes(1025)), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (GOOD._replace(user="x" * 1025), ErrorCode.UNACCEPTABLE_CREDENTIAL),
        (Deletion("eve", 1), ErrorCode.RESOURCE_NOT_FOUND),
        (Deletion("alice", 2), ErrorCode.RESOURCE_NOT_FOUND),
    ],
)
def test_each_user_has_an_error_of_its_own(asked, code):
    """The others of the request are altered all the same."""
    known = _image(GOOD).scram_credentials
    deletions = [asked] if isinstance(asked, Deletion) else []
    upsertions = [] if deletions else [asked]
    changes, results = alter(known, deletions, [*upsertions, GOOD._replace(user="bob")])
    assert [change.user for change in changes] == ["bob"]
    assert results["bob"] is None
    assert results[asked.user].code == code


def test_a_user_is_altered_once_in_a_request():
    """Not even deleted for one mechanism and set for another."""
    known = _image(GOOD).scram_credentials
    changes, results = alter(known, [Deletion("alice", 1)], [GOOD._replace(mechanism=2)])
    assert changes == []
    assert results["alice"].code == ErrorCode.DUPLICATE_RESOURCE


def test_their_number_is_bounded(monkeypatch):
    """A credential that is replaced needs no room."""
    monkeypatch.setattr(scram, "MOST_CREDENTIALS", 2)
    known = _image(GOOD).scram_credentials
    asked = [GOOD._replace(user=name) for name in ("alice", "bob", "carol")]
    changes, results = alter(known, [], asked)
    assert [change.user for change in changes] == ["alice", "bob"]
    assert results["carol"].code == ErrorCode.POLICY_VIOLATION


def test_the_level_stays_while_there_are_credentials():
    """A broker that doesn't know the change couldn't follow."""
    lower = FeatureUpdate(CHANGES_VERSION, 1, UpgradeType.UNSAFE_DOWNGRADE)
    assert update_features(_image(), [lower])
    with pytest.raises(Exception, match="There are SCRAM credentials"):
        update_features(_image(GOOD), [lower])
