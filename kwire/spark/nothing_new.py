"""Asks whether a run with the trigger ``once`` would do anything, before Spark starts.

A start of Spark takes ten seconds and half a gigabyte, and cron may ask for one every minute.

Rules:

- Nothing is left undone: every doubt means that Spark starts. The last run has ended without an
  error and with the same settings, the checkpoint's newest batch is finished, the cluster has the
  same topics and partitions, and each ends at the offset that would be read next. Or no batch was
  ever begun, and nothing was ever written to the topics.
- What a run does without Spark is done here: records of retry topics that are due are sent back
  first (and then there is something to read), and the group gets its offsets.
- The locks of the pipeline are held meanwhile. A second driver is refused, as by a run.
- A checkpoint that can't be read without Spark, as one in an object store, is a doubt.
"""

import re

import trio

from kwire.spark.broker_view import UNREACHABLE, BrokerView
from kwire.spark.checkpoint import BadCheckpoint, Checkpoint, Offsets
from kwire.spark.driver_lock import driver_locks
from kwire.spark.incarnations import Incarnations
from kwire.spark.progress import ENDED, STOPPED, fingerprint, read_status, renew
from kwire.spark.retries import open_retries
from kwire.spark.settings import PipelineSettings
from kwire.spark.sinks import FILE_KINDS
from kwire.spark.source_client import open_source
from kwire.spark.storage import Storage, storage_at


def is_nothing_new(settings: PipelineSettings) -> bool:
    """Whether a run would find nothing to do; SecondDriver, WrongSetting."""
    if settings.trigger != "once":
        return False
    try:
        storage = storage_at(settings.checkpoint)
        if settings.sink.kind in FILE_KINDS:
            storage_at(settings.sink.path)
    except ValueError:  # it needs Spark
        return False
    last = read_status(storage)
    if last is None or last.state not in (ENDED, STOPPED):
        return False
    if last.settings != fingerprint(settings):
        return False
    with driver_locks(settings, storage):
        try:
            if _sent_back(settings):
                return False
            offsets = _unchanged(settings, storage, last.note(settings.name))
        except (BadCheckpoint, OSError, *UNREACHABLE):  # a run waits, or says what is wrong
            return False
        if offsets is None:
            return False
        renew(storage, last, offsets)
    return True


def _sent_back(settings: PipelineSettings) -> int:
    """Send the records of retry topics that are due back; how many; KafkaError, ClientError."""
    dead = settings.dead_letters
    if dead is None or not dead.retry_delays_s:
        return 0
    delays_s = dead.retry_delays_s

    async def work() -> int:
        async with open_source(settings.source) as cluster:
            topics = settings.source.topics
            retries = await open_retries(cluster, settings.name, topics, len(delays_s))
            return await retries.move_due()

    return trio.run(work)


def _unchanged(settings: PipelineSettings, storage: Storage, note: str) -> Offsets | None:
    """The offsets at which all partitions end, and up to which all was read; None otherwise."""
    topics = Incarnations(storage)
    checkpoint = Checkpoint(storage_at(storage.url(topics.directory)))
    if checkpoint.pending() is not None:
        return None
    is_begun = checkpoint.finished() >= 0
    read = checkpoint.next_offsets() if is_begun else {}
    with BrokerView(settings.source, patience_s=0) as view:
        names = list(settings.source.topics)
        if settings.source.pattern:
            pattern = re.compile(settings.source.pattern)
            names = view.topics_matching(lambda name: pattern.fullmatch(name) is not None)
        found = view.topics(names)
        ids = {name: topic_id for name, (topic_id, _) in found.items()}
        partitions = {(name, at) for name, (_, count) in found.items() for at in range(count)}
        if not is_begun:
            is_there = bool(ids) and ids.keys() == {*names} and not topics.recreated(ids)
            never_written = view.ends(partitions) == dict.fromkeys(partitions, 0)
            return {} if is_there and never_written else None
        if ids != {name: topics.ids().get(name) for name, _ in read}:
            return None
        if partitions != set(read) or view.ends(partitions) != read:
            return None
        view.commit(settings.group or settings.name, read, note)
    return read
