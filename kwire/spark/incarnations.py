"""The topics that the pipeline has read: their ids, and how often each was created again.

A topic that is created again under its old name has other records at the same offsets. Only the
topic's id shows this. Spark's checkpoint can't go back to the beginning of one topic. So the
pipeline then begins a new *epoch*: a new checkpoint, in a directory of its own. It starts where the
old checkpoint ended, and at the beginning of the new topic.

The file ``topics.json`` beside the checkpoints holds the epoch, its starting offsets and the
topics. It is written before a topic's records are, and before an epoch begins: a kill at any point
leaves either the old state or the new one.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from kwire.spark.storage import Storage

FILE = "topics.json"


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic that the pipeline has read."""

    topic_id: str
    incarnation: int = 0


@dataclass(frozen=True, slots=True)
class State:
    """The content of the file; ``starting`` is Spark's JSON, empty in epoch 0."""

    topics: dict[str, Topic]
    epoch: int = 0
    starting: str = ""


class Incarnations:
    """The topics of a pipeline; the file in ``storage`` is read once."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        content = storage.read(FILE)
        self._state = State({})
        if content is not None:
            found = json.loads(content)
            topics = {name: Topic(**row) for name, row in found["topics"].items()}
            self._state = State(topics, found["epoch"], found["starting"])

    @property
    def epoch(self) -> int:
        """How many checkpoints there were before the one in use."""
        return self._state.epoch

    @property
    def starting(self) -> str:
        """The starting offsets of the epoch; empty in epoch 0, which uses the pipeline's own."""
        return self._state.starting

    @property
    def directory(self) -> str:
        """The directory of the epoch's checkpoint."""
        return f"spark-{self._state.epoch}"

    def of(self, topic: str) -> int:
        """How often a topic was created again."""
        found = self._state.topics.get(topic)
        return found.incarnation if found else 0

    def all(self) -> dict[str, int]:
        """How often each known topic was created again."""
        return {name: one.incarnation for name, one in self._state.topics.items()}

    def ids(self) -> dict[str, str]:
        """The cluster's id of each known topic."""
        return {name: one.topic_id for name, one in self._state.topics.items()}

    def recreated(self, ids: Mapping[str, str]) -> list[str]:
        """The topics whose id isn't the one that was noted."""
        known = self._state.topics
        return [name for name, id_ in ids.items() if name in known and known[name].topic_id != id_]

    def note(self, ids: Mapping[str, str]) -> None:
        """Note topics that are new to the pipeline."""
        new = {name: Topic(id_) for name, id_ in ids.items() if name not in self._state.topics}
        if new:
            self._save(replace(self._state, topics=self._state.topics | new))

    def begin_epoch(self, ids: Mapping[str, str], starting: str) -> None:
        """Begin a new checkpoint at these offsets; ``ids`` has the topics created again."""
        topics = dict(self._state.topics)
        for name, id_ in ids.items():
            topics[name] = Topic(id_, self.of(name) + 1)
        self._save(State(topics, self._state.epoch + 1, starting))

    def _save(self, state: State) -> None:
        self._storage.write(FILE, json.dumps(asdict(state), indent=1).encode())
        self._state = state
