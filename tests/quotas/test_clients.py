"""The quota that counts for a client is the one that Kafka's DefaultQuotaCallback finds."""

import pytest

from kwire.metadata.quotas import MUTATION_RATE, PRODUCE_RATE
from kwire.quotas import clients
from kwire.quotas.clients import IDLE_MS, Clients, limit_of
from kwire.quotas.rates import Window

BY_PRECEDENCE = (
    ((("client-id", "app"), ("user", "ann")), ("ann", "app")),
    ((("client-id", None), ("user", "ann")), ("ann", "app")),
    ((("user", "ann"),), ("ann", "")),
    ((("client-id", "app"), ("user", None)), ("ann", "app")),
    ((("client-id", None), ("user", None)), ("ann", "app")),
    ((("user", None),), ("ann", "")),
    ((("client-id", "app"),), ("", "app")),
    ((("client-id", None),), ("", "app")),
)
"""Entities, the first that counts before the others, and who shares a quota of theirs."""


def _clients(quotas) -> Clients:
    made = Clients(Window(11, 1000), Window(11, 1000))
    made.change(quotas)
    return made


@pytest.mark.parametrize("place", range(len(BY_PRECEDENCE)))
def test_what_says_most_about_the_client_counts(place):
    quotas = {
        entity: {PRODUCE_RATE: 100.0 + number}
        for number, (entity, _) in enumerate(BY_PRECEDENCE)
        if number >= place
    }
    names = BY_PRECEDENCE[place][1]
    assert limit_of(quotas, PRODUCE_RATE, "ann", "app") == (names, 100.0 + place)
    assert limit_of(quotas, MUTATION_RATE, "ann", "app") is None


def test_each_key_is_looked_for_on_its_own():
    known = _clients(
        {(("user", "ann"),): {PRODUCE_RATE: 1.0}, (("user", None),): {MUTATION_RATE: 2.0}}
    )
    own = known.of("ann", "app", 0)
    assert own.produce is not None
    assert own.produce.limit == 1.0
    assert own.mutation is not None
    assert own.mutation.limit == 2.0
    assert own.fetch is own.request is None


def test_other_client_ids_do_not_get_around_the_quota_of_a_user():
    known = _clients({(("user", "ann"),): {PRODUCE_RATE: 100.0}})
    meters = {id(known.of("ann", f"app-{n}", 0).produce) for n in range(50)}
    assert len(meters) == 1


def test_users_do_not_share_the_default():
    known = _clients({(("user", None),): {PRODUCE_RATE: 100.0}})
    assert known.of("ann", "app", 0).produce is not known.of("bob", "app", 0).produce


def test_a_new_value_counts_at_once_and_what_was_used_stays_used():
    known = _clients({(("user", "ann"),): {PRODUCE_RATE: 1000.0}})
    first = known.of("ann", "app", 0).produce
    assert first is not None
    assert first.use(2000, 0) == 0
    known.change({(("user", "ann"),): {PRODUCE_RATE: 100.0}})
    again = known.of("ann", "app", 0).produce
    assert again is first
    assert again.use(0, 0) == 10_000


def test_the_time_of_requests_never_waits_longer_than_one_window():
    known = _clients({(("user", "ann"),): {"request_percentage": 1.0}})
    meter = known.of("ann", "app", 0).request
    assert meter is not None
    assert meter.use(1e6, 0) == 1000


def test_meters_are_bounded_however_many_client_ids_come(monkeypatch):
    monkeypatch.setattr(clients, "MOST", 100)
    known = _clients({(("client-id", None),): {PRODUCE_RATE: 100.0}})
    for number in range(1000):
        own = known.of("ann", f"app-{number}", number)
        assert own.produce is not None
        own.produce.use(1, number)
    assert len(known.names) <= 300


def test_idle_meters_are_forgotten_after_an_hour():
    known = _clients({(("client-id", None),): {PRODUCE_RATE: 100.0}})
    own = known.of("ann", "busy", 0)
    known.of("ann", "idle", 0)
    assert own.produce is not None
    own.produce.use(1, IDLE_MS - 1)
    known.of("ann", "other", IDLE_MS)
    assert {names[1] for names in known.names} == {"busy", "other"}


def test_long_client_ids_take_no_more_room_than_short_ones(monkeypatch):
    """A client may name thousands of ids of 32 KB; each has its own meter, and is bounded too."""
    monkeypatch.setattr(clients, "MOST", 100)
    known = _clients({(("client-id", None),): {PRODUCE_RATE: 100.0}})
    longs = [f"{number:05}" + "x" * 32_000 for number in range(1000)]
    for number, name in enumerate(longs):
        assert known.of("ann", name, number).produce is not None
    assert known.of("ann", longs[-1], 1000).produce is known.of("ann", longs[-1], 1001).produce
    assert known.of("ann", longs[-1], 1000).produce is not known.of("ann", longs[-2], 1000).produce
    assert len(known.names) <= 300
    assert max(len(name) for names in known.names for name in names) <= clients.LONGEST
