"""Whatever producers ask for, in whatever order, with failed writes and restarts between."""

from hypothesis import given
from hypothesis import strategies as st

from kwire.coordinator.transaction.state import MAX_EPOCH, PREPARED, Transaction

ID = "t"
_NAMES = st.sampled_from(["a", "b"])
_PARTITIONS = st.sampled_from(["p-0", "p-1", "q-0"])
_VERSION = st.sampled_from(["", " v=1"])
_COMMANDS = st.one_of(
    st.builds("init {}".format, _NAMES),
    st.builds("init {} epoch={}".format, _NAMES, st.integers(0, 4)),
    st.builds("add {} {}{}".format, _NAMES, _PARTITIONS, _VERSION),
    st.builds("{} {}{}".format, st.sampled_from(["commit", "abort"]), _NAMES, _VERSION),
    st.builds("markers {}".format, st.sampled_from(["", "p-0"])),
    st.builds("level {}".format, st.integers(1, 2)),
    st.sampled_from(["after 40", "timeouts", "expire", "restart", "writes fail", "writes work"]),
)


@given(st.lists(_COMMANDS, max_size=40))
def test_states_are_what_the_records_say(new_script, commands):
    """The state is what its records make of it; epochs never go back; what is unfinished is known.

    A loaded coordinator differs in what isn't written: the epoch before, and markers that it has to
    write again.
    """
    script = new_script(id_expiration_ms=100_000)
    before: Transaction | None = None
    for command in commands:
        script.command(command)
        known = script.coordinator.get(ID)
        loaded = script.load().get(ID)
        assert (ID in script.coordinator.unfinished) == (
            known is not None and known.state in PREPARED
        )
        assert _written(known) == _written(loaded)
        if known is not None and loaded is not None:
            assert known.partitions <= loaded.partitions
        if known is not None and before is not None and known.producer_id == before.producer_id:
            assert before.producer_epoch <= known.producer_epoch <= MAX_EPOCH
        before = known


@given(st.lists(_COMMANDS, max_size=40))
def test_every_transaction_can_be_brought_to_an_end(new_script, commands):
    """After anything at all a new producer can begin, write and commit."""
    script = new_script()
    for command in commands:
        script.command(command)
    for command in ("writes work", "markers", "init z", "markers", "init z"):
        script.command(command)
    assert script.command("add z p-0")[-1] == "z add: ok"
    assert script.command("commit z")[-1] == "z: ok"
    assert script.command("markers")[-1].startswith("record CompleteCommit")


def _written(known: Transaction | None) -> Transaction | None:
    return known and known._replace(last_producer_epoch=-1, partitions=frozenset())
