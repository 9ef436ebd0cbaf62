"""What the text scripts of groups share: a coordinator of groups, and what the runtime does."""

from abc import abstractmethod
from typing import Any

from kwire.coordinator.consumer.topics import Topic, TopicSet
from kwire.coordinator.effects import Effects, Job
from kwire.coordinator.group_coordinator import GroupCoordinator
from kwire.coordinator.records import CoordinatorRecord
from kwire.errors import ErrorCode
from tests.coordinator.consumer.notation import GROUP, topic_id
from tests.coordinator.scripts import TickingScript, Words
from tests.coordinator.written import take_in


class GroupsScript(TickingScript):
    """A coordinator of groups whose log is a list. ``holds_jobs``: long work isn't done at once."""

    coordinator: GroupCoordinator

    def __init__(self) -> None:
        super().__init__()
        self.topics = TopicSet()
        self.holds_jobs = False
        self.jobs: list[tuple[GroupCoordinator, Job]] = []

    @abstractmethod
    def new_coordinator(self) -> GroupCoordinator:
        """A coordinator that knows nothing yet."""

    def load(self) -> GroupCoordinator:
        """A coordinator that has replayed the log."""
        self.coordinator = self.new_coordinator()
        for record in self.log:
            self.coordinator.replay(record, -1, self.now_ms, loading=True)
        self.take(self.coordinator.begin(self.now_ms))
        return self.coordinator

    def take(self, effects: Effects) -> None:
        """What the runtime does: write, replay, answer; or go back."""
        if self.writes_fail and effects.records:
            undone = self.coordinator.undo(effects, self.now_ms)
            for waiter, response in effects.replies:
                self.answer(waiter, type(response)(error_code=ErrorCode.NOT_COORDINATOR))
            self.take(undone)
            return
        self.note(effects)
        for written in effects.records:
            self.note_record(written)
            self.log.append(take_in(self.coordinator, written, len(self.log), self.now_ms))
        for waiter, response in effects.replies:
            self.answer(waiter, response)
        for job in effects.jobs:
            if self.holds_jobs:
                self.trace.append(f"begins {job.name}")
                self.jobs.append((self.coordinator, job))
            else:
                self.take(job.hand_in(job.work(), self.now_ms))

    def finish_jobs(self, *, fail: bool) -> None:
        """Hand in the work that was begun, in order; or it fails."""
        jobs, self.jobs = self.jobs, []
        for coordinator, job in jobs:
            if coordinator is not self.coordinator:
                self.trace.append("nobody takes it")
                continue
            result = RuntimeError("no luck") if fail else job.work()
            self.take(job.hand_in(result, self.now_ms))

    def note(self, effects: Effects) -> None:
        """Add what is said of the group to the trace."""
        self.trace += [note.removeprefix(f"group {GROUP}: ") for note in effects.notes]

    def note_record(self, written: CoordinatorRecord) -> None:
        """Add a record to the trace, where scripts show records."""

    @abstractmethod
    def answer(self, waiter: Any, response: Any) -> None:
        """Note an answer, and let the client remember what it says."""

    def do_delete(self, plain: list[str], given: Words) -> None:
        """The group is deleted."""
        self.take(self.coordinator.delete(GROUP))

    def do_topics(self, plain: list[str], given: Words) -> None:
        """The cluster has these topics now; ``t=4`` has four partitions."""
        self.topics = TopicSet(
            [Topic(name, topic_id(name), int(count)) for name, count in given.items()],
            self.topics.revision + 1,
        )
