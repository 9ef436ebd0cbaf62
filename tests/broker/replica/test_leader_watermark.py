"""Whatever happens, all replicas that may be in sync have what consumers see.

A model of the metadata log judges: it knows which ISRs the log has, or may still get.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.broker.leading import LEADER, ROW, append, follow, leader

NODES = st.sampled_from([2, 3])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 3)),
        st.tuples(st.just("catch_up"), NODES),
        st.tuples(st.just("fetch"), NODES, st.integers(0, 9)),
        st.tuples(st.sampled_from(["propose", "commit"])),
        st.tuples(st.sampled_from(["lag", "withdraw", "lose"])),
        st.tuples(st.sampled_from(["fence", "unfence"]), NODES),
    ),
    min_size=10,
    max_size=60,
)


class Cluster:
    """A leader, the metadata log, and how far each follower really is.

    ``proposed`` are the ISRs that the log may take next, at its ``revision``.
    """

    def __init__(self, directory: Path, min_isr: int, isr: tuple[int, ...]) -> None:
        self.row = ROW._replace(isr=isr)
        self.partition, self._brokers = leader(directory, self.row, min_insync_replicas=min_isr)
        self.revision = 1
        self.proposed: list[tuple[int, ...]] = []
        self.reached = {2: 0, 3: 0}

    def append(self, count: int) -> None:
        """A producer appends."""
        append(self.partition, count, acks=1)

    def fetch(self, node: int, offset: int) -> None:
        """A follower has the records before an offset."""
        self.reached[node] = max(self.reached[node], min(offset, self.partition.log.log_end_offset))
        follow(self.partition, node, self.reached[node])

    def catch_up(self, node: int) -> None:
        """A follower has all records."""
        self.fetch(node, self.partition.log.log_end_offset)

    def lag(self) -> None:
        """The lag time has passed."""
        for _ in range(3):
            self.partition.find_lagging_followers()

    def propose(self) -> None:
        """The leader proposes what it wishes; the answer isn't known."""
        wished = self.partition.propose(self.revision)
        if wished is not None:
            self.proposed.append(wished)

    def withdraw(self) -> None:
        """The leader has seen the log up to here."""
        self.partition.withdraw(self.revision)

    def commit(self) -> None:
        """The log takes the first proposal, which settles the others."""
        if self.proposed:
            epoch = self.row.partition_epoch + 1
            self.row = self.row._replace(isr=self.proposed[0], partition_epoch=epoch)
            self.lose()
            self.partition.update(self.row)

    def lose(self) -> None:
        """The log takes another broker's change instead."""
        self.proposed = []
        self.revision += 1

    def fence(self, node: int) -> None:
        """A broker is fenced."""
        self._brokers.inactive.add(node)
        self.partition.look_at_brokers()

    def unfence(self, node: int) -> None:
        """A broker is there again."""
        self._brokers.inactive.discard(node)
        self.partition.look_at_brokers()

    @property
    def is_enough(self) -> bool:
        """Whether the log has enough replicas in sync."""
        return len(self.row.isr) >= self.partition.min_isr

    def check(self, before: int, was_enough: bool) -> None:
        """Judge the high watermark after a step, from what it was before."""
        high_watermark = self.partition.high_watermark
        assert high_watermark >= before, "it never falls"
        if high_watermark == before:
            return
        assert was_enough or self.is_enough
        for isr in (self.row.isr, *self.proposed):
            for node in isr:
                assert node == LEADER or self.reached[node] >= high_watermark


@settings(max_examples=max(settings().max_examples, 100))
@given(
    steps=STEPS, min_isr=st.integers(1, 3), isr=st.sampled_from([(1,), (1, 2), (1, 3), (1, 2, 3)])
)
def test_no_replica_that_may_be_in_sync_lacks_what_consumers_see(
    steps: list[tuple[str, int]], min_isr: int, isr: tuple[int, ...]
) -> None:
    """After each step of any history."""
    with TemporaryDirectory() as directory:
        cluster = Cluster(Path(directory), min_isr, isr)
        for name, *arguments in steps:
            before, was_enough = cluster.partition.high_watermark, cluster.is_enough
            getattr(cluster, name)(*arguments)
            cluster.check(before, was_enough)
        cluster.partition.log.abandon()
