"""Mistakes in the protocol that a broker could have: each is put in, and the simulation sees it."""

from collections.abc import Callable
from typing import Any, NamedTuple

from kwire.broker import coordinator_lookup, share_partitions
from kwire.broker.delayed_produce import DelayedProduceQueue
from kwire.broker.delayed_response import CommittedRecords, Replication
from kwire.broker.replica import fetching
from kwire.broker.replica.follower_partition import FollowerPartition
from kwire.broker.replica.leader_partition import LeaderPartition
from kwire.broker.replica.replica_sessions import ReplicaSession
from kwire.broker.share_dead_letters import ShareDeadLetters
from kwire.coordinator.transaction import coordinator
from kwire.dispatch import pending_request
from kwire.handlers import replica_fetch
from kwire.metadata import leader_election, partition_change, registration
from kwire.protocol.messages.offset_fetch import OffsetFetchResponse
from kwire.protocol.messages.sync_group import SyncGroupResponse
from kwire.share.partition import Acknowledge, SharePartition
from kwire.share.run import AVAILABLE, Run
from tests.simulation import failures, fast_bugs, more_clients
from tests.simulation.scenarios import Fault, kills

# Private attributes: a mistake is put in where a broker's code would have it.


class Bug(NamedTuple):
    """A mistake, a scenario in which it shows, what the checks say then, and with which seed.

    The seed is tried first; a broker that works in another order needs another one.
    """

    put_in: Callable[[Any], None]
    fault: Fault
    match: str
    seed: int = 1


def own_end_is_the_watermark(patch: Any) -> None:
    """The high watermark waits for no follower."""

    def alone(led: LeaderPartition) -> None:
        led._holding = ()

    patch.setattr(LeaderPartition, "_note_holding", alone)


def fastest_follower_is_enough(patch: Any) -> None:
    """The high watermark waits for one follower, not for all in sync."""
    note = LeaderPartition._note_holding

    def one(led: LeaderPartition) -> None:
        note(led)
        fastest = max(led._holding, key=lambda follower: follower.end_offset, default=None)
        led._holding = () if fastest is None else (fastest,)

    advance = LeaderPartition.advance

    def look(led: LeaderPartition) -> None:
        led._note_holding()
        advance(led)

    patch.setattr(LeaderPartition, "_note_holding", one)
    patch.setattr(LeaderPartition, "advance", look)


def everybody_joins(patch: Any) -> None:
    """A follower is in sync as soon as it fetches, wherever it is."""
    patch.setattr(LeaderPartition, "_may_join", lambda led, follower: follower.broker_epoch >= 0)


def watermark_under_min_isr(patch: Any) -> None:
    """The high watermark moves while too few replicas are in sync (KIP-966)."""
    advance = LeaderPartition.advance

    def regardless(led: LeaderPartition) -> None:
        known, led.min_isr = led.min_isr, 1
        try:
            advance(led)
        finally:
            led.min_isr = known

    patch.setattr(LeaderPartition, "advance", regardless)


def new_leader_knows_everything(patch: Any) -> None:
    """A new leader takes its own end for the high watermark."""
    begin = LeaderPartition.__init__

    def at_the_end(led: LeaderPartition, *args: Any, **named: Any) -> None:
        begin(led, *args, **named)
        led.high_watermark = led.log.log_end_offset

    patch.setattr(LeaderPartition, "__init__", at_the_end)


def watermark_falls(patch: Any) -> None:
    """The high watermark follows whoever is in the ISR, also backwards."""

    def back(led: LeaderPartition) -> None:
        ends = [one.end_offset for one in led._holding if one.end_offset >= 0]
        reached = min([led.log.log_end_offset, *ends])
        if reached != led.high_watermark:
            led.high_watermark = reached
            led.advanced()

    patch.setattr(LeaderPartition, "advance", back)


def old_records_stay(patch: Any) -> None:
    """A follower doesn't cut what its leader doesn't have (KIP-101)."""
    patch.setattr(
        fetching, "cut_offset", lambda partition, leaders: partition.position.fetch_offset
    )
    patch.setattr(replica_fetch, "_diverging", lambda partition, position: None)


def cut_to_the_watermark(patch: Any) -> None:
    """A follower cuts to its high watermark, as before KIP-101."""
    follow = fetching.Fetching.follow

    def cut(self: Any, partition: FollowerPartition) -> None:
        log = partition.log
        if log.log_end_offset > partition.high_watermark:
            from kwire.log.truncation import truncate_log

            truncate_log(log, partition.high_watermark, 0, log.disk, 0)
            partition.begin_cut()
            partition.end_cut()
        follow(self, partition)

    patch.setattr(fetching.Fetching, "follow", cut)


def anybody_leads(patch: Any) -> None:
    """An election takes any replica whose broker lives, with the ISR as it is."""

    def elect(before: Any, after: Any, rules: Any) -> Any:
        living = [node for node in reversed(after.replicas) if node in rules.active]
        if after.leader in living or not living:
            return after._replace(leader=after.leader if after.leader in living else -1)
        leader = living[0]
        isr = after.isr if leader in after.isr else (leader, *after.isr)
        return after._replace(leader=leader, isr=isr, elr=())

    patch.setattr(partition_change, "elect_leader", elect)


def epochs_stand_still(patch: Any) -> None:
    """A new leader has the epoch of the one before."""
    changed = partition_change.changed_partition

    def kept(before: Any, wanted: Any, rules: Any) -> Any:
        after = changed(before, wanted, rules)
        return None if after is None else after._replace(leader_epoch=before.leader_epoch)

    patch.setattr(partition_change, "changed_partition", kept)


def the_dead_stay_in_sync(patch: Any) -> None:
    """Fencing leaves a broker in the ISRs."""
    patch.setattr(registration, "without_brokers", lambda image, lost, **_: [])


def eligible_for_ever(patch: Any) -> None:
    """A replica stays eligible when the ISR is large enough to commit without it."""

    def all_known(before: Any, after: Any, rules: Any) -> Any:
        safe = {*before.isr, *before.elr}.difference(after.isr)
        return after._replace(elr=tuple(node for node in after.replicas if node in safe))

    patch.setattr(partition_change, "_with_elr", all_known)


def acknowledged_at_once(patch: Any) -> None:
    """acks=all waits for nobody."""
    patch.setattr(
        LeaderPartition, "wait_for", lambda led, offset, waiter, slot: _done(waiter, slot)
    )
    patch.setattr(
        DelayedProduceQueue, "wait", lambda queue, offset, waiter, slot: _done(waiter, slot)
    )


def _done(waiter: Any, slot: int) -> None:
    waiter._waits[slot] = None
    waiter.done(slot, None)


def acknowledged_before_the_last(patch: Any) -> None:
    """acks=all waits for the first record of a batch, not for its last."""
    wait = LeaderPartition.wait_for

    def early(led: LeaderPartition, offset: int, waiter: Any, slot: int) -> None:
        wait(led, max(0, offset - 3), waiter, slot)

    patch.setattr(LeaderPartition, "wait_for", early)


def watermark_beyond_the_log(patch: Any) -> None:
    """A follower takes its leader's watermark although it lacks the records."""

    def take(one: FollowerPartition, leaders_watermark: int, leaders_start: int) -> None:
        one.high_watermark = max(one.high_watermark, leaders_watermark + 1)

    patch.setattr(FollowerPartition, "advance", take)


def coordinators_tell_at_once(patch: Any) -> None:
    """Coordinators answer what isn't replicated."""
    patch.setattr(CommittedRecords, "end_offset", property(lambda committed: 0))


def coordinators_begin_empty(patch: Any) -> None:
    """A coordinator isn't loaded again when it moves to another broker."""
    patch.setattr(coordinator_lookup, "has_records", lambda partition: False)


def reads_do_not_wait(patch: Any) -> None:
    """The offsets of a group are told before they are replicated."""
    _tell_at_once(patch, OffsetFetchResponse)


def assignments_do_not_wait(patch: Any) -> None:
    """A member learns what it owns before that is replicated."""
    _tell_at_once(patch, SyncGroupResponse)


def _tell_at_once(patch: Any, kind: type) -> None:
    held = pending_request.held

    def at_once(response: Any, flusher: Any, before: Any = ()) -> Any:
        if type(response) is kind:
            flusher.forget()
            before = ()
        return held(response, flusher, before)

    patch.setattr(pending_request, "held", at_once)
    patch.setattr("tests.simulation.serving.held", at_once)
    patch.setattr("kwire.dispatch.serving.held", at_once)


def proposals_are_forgotten(patch: Any) -> None:
    """A leader counts a replica as in sync only when it learns that its proposal was accepted."""
    propose = LeaderPartition.propose

    def forget(led: LeaderPartition, revision: int) -> tuple[int, ...] | None:
        wished = propose(led, revision)
        led._note_proposal((), -1)
        return wished

    patch.setattr(LeaderPartition, "propose", forget)


def cuts_forget_the_watermark(patch: Any) -> None:
    """A follower that truncates its log begins with no high watermark."""
    end_cut = FollowerPartition.end_cut

    def forget(one: FollowerPartition) -> None:
        end_cut(one)
        one.high_watermark = one.log.log_start_offset

    patch.setattr(FollowerPartition, "end_cut", forget)


def markers_count_at_once(patch: Any) -> None:
    """A transaction is complete although its markers aren't replicated."""

    async def at_once(replication: Replication) -> None:
        """Don't wait."""

    patch.setattr(Replication, "wait", at_once)


def wiped_disks_stay_in_sync(patch: Any) -> None:
    """A broker that comes back without its data stays in the ISRs."""
    take_out = registration.without_brokers
    patch.setattr(registration, "lost_or_found", lambda *_: [])
    patch.setattr(registration, "without_brokers", lambda image, lost, **_: take_out(image, lost))


def who_left_is_eligible(patch: Any) -> None:
    """A broker that was unregistered comes back with all rights of its replicas."""
    take_out = registration.without_brokers

    def known_only(image: Any, lost: Any, *, are_doubtful: bool = False) -> Any:
        are_known = lost <= image.brokers.keys()
        return take_out(image, lost, are_doubtful=are_doubtful and are_known)

    patch.setattr(registration, "without_brokers", known_only)


def quiet_partitions_keep_their_epoch(patch: Any) -> None:
    """A session tells a broker's new epoch only for partitions that it names."""

    def only_note(session: ReplicaSession, broker_epoch: int) -> None:
        session.broker_epoch = broker_epoch

    patch.setattr(ReplicaSession, "renew", only_note)


def unclean_by_default(patch: Any) -> None:
    """Whoever lives leads when nobody in sync does."""

    def anybody(partition: Any, rules: Any) -> int | None:
        return next((node for node in partition.replicas if node in rules.active), None)

    patch.setattr(leader_election, "_unclean_leader", anybody)


def followers_show_everything(patch: Any) -> None:
    """A consumer reads from a follower beyond what is replicated."""

    def read(one: FollowerPartition, offset: int, max_bytes: int, **how: bool) -> Any:
        end_offset, at_least = one.log.log_end_offset, how["min_one_batch"]
        return one.log.read(offset, max_bytes, end_offset=end_offset, min_one_batch=at_least)

    patch.setattr(FollowerPartition, "read", read)


def any_epoch_ends(patch: Any) -> None:
    """The end of a transaction ends the next one, too."""
    may_end = coordinator.may_end

    def any_epoch(known: Any, end: Any) -> bool:
        return may_end(known, end._replace(producer_epoch=known.producer_epoch))

    patch.setattr(coordinator, "may_end", any_epoch)


BUGS = [
    Bug(own_end_is_the_watermark, failures.leader_dies_with_tail, "is replicated to"),
    Bug(fastest_follower_is_enough, failures.isr_flap, "is replicated to"),
    Bug(everybody_joins, failures.leaders_die_young, "joins|is replicated to|leads with|cuts at"),
    Bug(watermark_under_min_isr, failures.last_replica_standing, "is replicated to|leads with"),
    Bug(new_leader_knows_everything, failures.leader_dies_with_tail, "takes"),
    Bug(watermark_falls, failures.isr_flap, "the watermark of|the end of|is replicated to"),
    Bug(
        old_records_stay,
        failures.leader_dies_with_tail,
        "another batch|follows to|cuts|within",
        seed=12,
    ),
    Bug(cut_to_the_watermark, failures.leaders_die_young, "is replicated to|leads with|cuts at"),
    Bug(anybody_leads, failures.last_replica_standing, "joins|leads with"),
    Bug(epochs_stand_still, kills, "two leaders"),
    Bug(the_dead_stay_in_sync, kills, "a fenced broker"),
    Bug(eligible_for_ever, failures.last_replica_standing, "is replicated to|leads with"),
    Bug(acknowledged_at_once, failures.leader_dies_with_tail, "acknowledges"),
    Bug(acknowledged_before_the_last, failures.leader_dies_with_tail, "acknowledges"),
    Bug(watermark_beyond_the_log, kills, "follows to"),
    Bug(coordinators_tell_at_once, more_clients.commits_are_read_at_once, r"group: \d+, \d+"),
    Bug(
        coordinators_begin_empty,
        more_clients.commits_are_read_at_once,
        r"group: \d+, -?\d+",
        seed=2,
    ),
    Bug(reads_do_not_wait, more_clients.commits_are_read_at_once, r"group: \d+, \d+", seed=2),
    Bug(assignments_do_not_wait, more_clients.members_come_and_go, "two owners"),
    Bug(proposals_are_forgotten, failures.isr_flap, "as maximal ISR"),
    Bug(cuts_forget_the_watermark, failures.leader_dies_with_tail, "follows to .*, after"),
    Bug(wiped_disks_stay_in_sync, failures.wiped_while_all_are_away, "is replicated|leads with"),
    Bug(who_left_is_eligible, failures.one_leaves_and_comes_back, "is replicated|leads with"),
    Bug(
        quiet_partitions_keep_their_epoch,
        failures.session_ends_in_silence,
        "not within 20 s: all brokers",
    ),
    Bug(unclean_by_default, failures.the_stale_return_first, "joins|leads with"),
    Bug(markers_count_at_once, failures.markers_die_young, "transaction"),
    Bug(followers_show_everything, more_clients.truncating_followers_are_read, "shows"),
    Bug(any_epoch_ends, more_clients.late_ends, "a late end of a transaction"),
    Bug(fast_bugs.followers_are_told_the_end, kills, "follows to"),
    Bug(fast_bugs.what_was_sent_counts, kills, "is replicated to"),
    Bug(fast_bugs.leaders_show_everything, kills, "shows"),
    Bug(
        fast_bugs.links_hear_no_news,
        failures.session_ends_in_silence,
        "not within 20 s: all brokers",
    ),
]


# Mistakes with the records of share groups (``test_share_groups``)


def accepted_records_come_again(patch: Any) -> None:
    """A record that is accepted is available again."""
    outcome = SharePartition._outcome

    def released(share: SharePartition, kind: Acknowledge, run: Run) -> Any:
        return AVAILABLE if kind is Acknowledge.ACCEPT else outcome(share, kind, run)

    patch.setattr(SharePartition, "_outcome", released)


def locks_end_early(patch: Any) -> None:
    """A lock lasts for a fiftieth of its time."""
    settings = share_partitions.share_settings

    def short(*args: Any) -> Any:
        found = settings(*args)
        return found._replace(limits=found.limits._replace(lock_ms=found.limits.lock_ms // 50))

    patch.setattr(share_partitions, "share_settings", short)


def deliveries_are_not_counted(patch: Any) -> None:
    """Each delivery is the first."""
    take = SharePartition._take

    def first(share: SharePartition, run: Run, member: str, deadline_ms: int) -> None:
        take(share, run, member, deadline_ms)
        run.count = 1

    patch.setattr(SharePartition, "_take", first)


def one_delivery_too_many(patch: Any) -> None:
    """The limit is one more than the group's."""
    settings = share_partitions.share_settings

    def more(*args: Any) -> Any:
        found = settings(*args)
        limit = found.limits.delivery_limit + 1
        return found._replace(limits=found.limits._replace(delivery_limit=limit))

    patch.setattr(share_partitions, "share_settings", more)


def dead_letters_are_not_written(patch: Any) -> None:
    """Dead records are archived without."""

    async def write(letters: ShareDeadLetters, *args: Any) -> bool:
        return True

    patch.setattr(ShareDeadLetters, "write", write)


SHARE_BUGS = [
    Bug(accepted_records_come_again, kills, "an acknowledged record comes again"),
    Bug(locks_end_early, kills, "two owners", seed=2),
    Bug(deliveries_are_not_counted, kills, "releases aren't counted"),
    Bug(one_delivery_too_many, kills, "beyond the limit"),
    Bug(dead_letters_are_not_written, kills, "neither accepted nor dead"),
]
