"""Client quotas in the metadata: kept by stores, bounded, and altered entity by entity."""

import pytest

from kwire.errors import ErrorCode
from kwire.metadata import quotas
from kwire.metadata.changes import apply, from_json, snapshot, to_json
from kwire.metadata.difference import difference
from kwire.metadata.features import CHANGES_VERSION, FeatureUpdate, update_features
from kwire.metadata.image import MetadataImage
from kwire.metadata.quotas import Alteration, Alterations, ClientQuotaChanged, Filter, entity_of

ANN = (("user", "ann"),)
BOTH = (("client-id", None), ("user", "ann"))
CHANGES = [
    ClientQuotaChanged(ANN, "producer_byte_rate", 1000.0),
    ClientQuotaChanged(ANN, "request_percentage", 0.1),
    ClientQuotaChanged(BOTH, "consumer_byte_rate", float("inf")),
    ClientQuotaChanged((("ip", None),), "connection_creation_rate", 5.0),
]
IMAGE = apply(MetadataImage(), CHANGES, 1)


def test_a_store_keeps_every_quota():
    assert from_json(to_json(CHANGES)) == CHANGES
    again = apply(MetadataImage(), from_json(to_json(snapshot(IMAGE))), 1)
    assert again.client_quotas == IMAGE.client_quotas
    assert len(IMAGE.client_quotas) == 3


def test_a_difference_has_what_the_commits_did():
    removed = [ClientQuotaChanged(ANN, "request_percentage", None)]
    later = apply(IMAGE, [*removed, ClientQuotaChanged(BOTH, "consumer_byte_rate", 1.0)], 2)
    assert difference(IMAGE, later) == [
        removed[0],
        ClientQuotaChanged(BOTH, "consumer_byte_rate", 1.0),
    ]
    assert apply(MetadataImage(), difference(MetadataImage(), later), 2).client_quotas == (
        later.client_quotas
    )


def test_the_last_value_takes_its_entity_with_it():
    changes = [ClientQuotaChanged(one.entity, one.key, None) for one in CHANGES]
    assert apply(IMAGE, changes, 2).client_quotas == {}


def test_the_level_of_changes_stays_while_there_are_quotas():
    image = IMAGE._replace(features={CHANGES_VERSION: 2})
    with pytest.raises(Exception, match="client quotas"):
        update_features(image, [FeatureUpdate(CHANGES_VERSION, 1, 2)])


def _altered(known, *asked):
    alterations = Alterations(known)
    for one in asked:
        alterations.decide_next(one)
    return alterations


def test_only_what_is_new_is_a_change():
    done = _altered(
        IMAGE.client_quotas,
        Alteration(ANN, [("producer_byte_rate", 1000.0), ("consumer_byte_rate", None)]),
    )
    assert done.results == {ANN: None}
    assert done.changes == []


def test_an_entity_that_comes_twice_has_an_error_and_its_first_values():
    """As in Kafka."""
    values = [("producer_byte_rate", 5.0)]
    done = _altered({}, Alteration(ANN, values), Alteration(ANN, [("producer_byte_rate", 6.0)]))
    error = done.results[ANN]
    assert error is not None
    assert error.code == ErrorCode.INVALID_REQUEST
    assert done.changes == [ClientQuotaChanged(ANN, "producer_byte_rate", 5.0)]


def test_one_bad_value_leaves_its_entity_as_it_was():
    done = _altered(
        {},
        Alteration(ANN, [("producer_byte_rate", 5.0), ("request_percentage", float("nan"))]),
        Alteration(BOTH, [("producer_byte_rate", 2.0**63)]),
    )
    assert [error and error.message for error in done.results.values()] == [
        "Quota request_percentage must be a number",
        None,
    ]
    assert [change.entity for change in done.changes] == [BOTH]


def test_the_cluster_holds_a_bounded_number_of_values(monkeypatch):
    """What is there may still be changed and removed."""
    monkeypatch.setattr(quotas, "MOST_VALUES", 4)
    full = IMAGE.client_quotas
    refused = _altered(full, Alteration(ANN, [("consumer_byte_rate", 5.0)])).results[ANN]
    assert refused is not None
    assert refused.code == ErrorCode.POLICY_VIOLATION
    for values in ([("producer_byte_rate", 5.0)], [("producer_byte_rate", None)]):
        assert _altered(full, Alteration(ANN, values)).results == {ANN: None}
    monkeypatch.setattr(quotas, "MOST_VALUES", 5)
    assert _altered(full, Alteration(ANN, [("consumer_byte_rate", 5.0)])).results == {ANN: None}


def test_an_address_has_one_name_however_it_is_written():
    assert entity_of([("ip", "0:0:0:0:0:0:0:1")]) == (("ip", "::1"),)


@pytest.mark.parametrize(
    ("names", "types", "is_strict", "found"),
    [
        ({}, (), False, 3),
        ({}, (), True, 0),
        ({"user": "ann"}, (), False, 2),
        ({"user": "ann"}, (), True, 1),
        ({"user": "ann"}, ("client-id",), True, 1),
        ({"client-id": None}, (), False, 1),
        ({"ip": None}, (), True, 1),
        ({"user": None}, (), False, 0),
    ],
)
def test_a_filter_matches_as_in_kafka(names, types, is_strict, found):
    asked = Filter(names, frozenset(types), is_strict)
    assert sum(map(asked.matches, IMAGE.client_quotas)) == found
