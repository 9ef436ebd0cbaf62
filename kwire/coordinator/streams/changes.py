"""Changes of a streams group: the next epoch, and assignments.

Rules (besides those of ``ModernChanges``):

- If the group changes during an assignment that takes long, the assignment is computed again. If
  the group changes during ``OVERTAKEN_AT_MOST`` assignments in a row, it takes the next one all the
  same, so that a group which changes all the time still gets assignments.
- Members that join an empty group wait for each other (``streams.initial.rebalance.delay.ms``), so
  that the first one doesn't restore the state of all tasks.

Source: GroupMetadataManager of Kafka 4.4 (maybeUpdateStreamsTargetAssignment,
computeDelayedTargetAssignment); KIP-1071.
"""

from collections.abc import Mapping
from contextlib import suppress

from kwire.coordinator.consumer.timers import Assigning
from kwire.coordinator.effects import Turn
from kwire.coordinator.modern_changes import ModernChanges, assign_later
from kwire.coordinator.streams.assignors.spec import MemberTasks
from kwire.coordinator.streams.group import StreamsGroup
from kwire.coordinator.streams.update import StreamsUpdate, TaskQuestion
from kwire.errors import KafkaError

OVERTAKEN_AT_MOST = 1
"""How many assignments in a row are computed again because the group has changed meanwhile."""


class StreamsChanges(ModernChanges[StreamsGroup, StreamsUpdate]):
    """Makes the changes of one coordinator's streams groups."""

    def start_update(self, group: StreamsGroup, turn: Turn) -> StreamsUpdate:
        """Begin a change of a group."""
        settings = self._around.streams_settings_of(group.group_id)
        return StreamsUpdate(group, turn, self._around.topics(), settings)

    def go_on(self, update: StreamsUpdate, *, is_certain: bool) -> bool:
        """Go to the next epoch if that is certain or if there is news; then assign."""
        look_if_possible(update)
        update.next_epoch(is_certain=is_certain)
        self.assign(update)
        return True

    def assign(self, update: StreamsUpdate, overtaken: int = 0) -> None:
        """Compute the target of the group's epoch, now or as soon as the settings allow it."""
        look_if_possible(update)
        super().assign(update, overtaken)

    def _take(
        self,
        update: StreamsUpdate,
        assigning: Assigning,
        question: TaskQuestion,
        assignment: Mapping[str, MemberTasks],
    ) -> None:
        group = update.original
        update.turn.effects.undo.append(lambda undone: assign_later(group, undone))
        is_overtaken = assigning.epoch != group.epoch or assigning.member_ids != set(group.members)
        is_retried = is_overtaken and assigning.overtaken < OVERTAKEN_AT_MOST
        if is_retried or assigning.epoch <= group.target_epoch:
            self.assign(update, assigning.overtaken + 1)
        elif group.members:
            update.take_assignment(assigning.epoch, assignment)
            if is_overtaken and assigning.epoch == group.epoch:
                # A static member came back under another id: only another epoch assigns it again.
                update.next_epoch(is_certain=True)
            self.assign(update)


def look_if_possible(update: StreamsUpdate) -> None:
    """Look at the topics; a topology that can't fit any topics stays without tasks."""
    if update.group.topology is not None:
        with suppress(KafkaError):
            update.look()
