"""``kwire pipeline check``: say what is wrong with a pipeline's file, without starting Spark."""

import argparse
import re
import sys
from collections.abc import Sequence

from kwire.cli.output import fail, wrong
from kwire.spark.commands.reading import add_examples, add_file, read_or_tell
from kwire.spark.settings import PipelineSettings, WrongSetting

_MOST_NAMED = 10


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The file."""
    add_file(parser)
    parser.add_argument(
        "--offline", action="store_true", help="don't ask the cluster whether the topics exist"
    )
    add_examples(
        parser, "kwire pipeline check orders.toml", "kwire pipeline check orders.toml --offline"
    )


def run(options: argparse.Namespace) -> int:
    """Check a file; exit code 2 if it is wrong, 1 if the cluster doesn't have what it names."""
    from kwire.spark.batch_work import check_transforms
    from kwire.spark.session import NoSpark, check_version

    settings = read_or_tell(options.file)
    if settings is None:
        return 2
    try:
        check_transforms(settings.transforms)
    except WrongSetting as error:
        return wrong(f"{options.file}: {error}")
    try:
        if not options.offline and (missing := _missing(settings)):
            return fail(missing)
    except WrongSetting as error:
        return wrong(f"{options.file}: {error}")
    try:
        check_version(settings)
    except NoSpark as error:  # spark-submit may bring a connector, so the file isn't wrong
        print(f"kwire: this environment can't run it: {error}", file=sys.stderr)
    topics = settings.source.pattern or ", ".join(settings.source.topics)
    cluster = settings.source.bootstrap_servers
    sink = f"{settings.sink.kind} {settings.sink.path}".rstrip()
    print(f"{options.file}: {topics} of {cluster} → {sink}")
    return 0


def _missing(settings: PipelineSettings) -> str:
    """A message about topics or offsets that the cluster lacks; empty if it has all."""
    from kwire.spark.broker_view import UNREACHABLE, BrokerView

    try:
        with BrokerView(settings.source, patience_s=0) as view:
            wanted: Sequence[str] = settings.source.topics
            if settings.source.pattern:
                pattern = re.compile(settings.source.pattern)
                wanted = view.topics_matching(lambda name: pattern.fullmatch(name) is not None)
            found = view.topics(wanted)
    except UNREACHABLE as error:
        return f"the cluster at {settings.source.bootstrap_servers} doesn't answer: {error}"
    missing = [one for one in settings.source.topics if one not in found]
    if missing:
        return f"the cluster has no topic {', '.join(missing)}"
    if _has_begun(settings):
        return ""
    partitions = {(name, at) for name, (_, count) in found.items() for at in range(count)}
    return _other_offsets(settings.source.starting, partitions)


def _has_begun(settings: PipelineSettings) -> bool:
    """Whether the pipeline continues from its checkpoint, and ``source.starting`` has no effect.

    Also False if this can't be found out without Spark, as in an object store.
    """
    from kwire.spark.checkpoint import BadCheckpoint, Checkpoint
    from kwire.spark.storage import storage_at

    try:
        return bool(Checkpoint(storage_at(f"{settings.checkpoint}/spark-0")).end(-1))
    except (BadCheckpoint, OSError, ValueError):
        return False


def _other_offsets(starting: str, partitions: set[tuple[str, int]]) -> str:
    """A message if ``starting`` lacks partitions of the cluster or has others; else empty."""
    from kwire.spark.checkpoint import offsets_of

    if not starting.lstrip().startswith("{"):
        return ""
    named = set(offsets_of(starting))
    rule = "source.starting needs an offset for each partition (-2: its beginning, -1: its end)"
    if lacking := sorted(partitions - named):
        return f"{rule}, and lacks {_listed(lacking)}"
    if strange := sorted(named - partitions):
        return f"{rule}, and of no others: the cluster has no {_listed(strange)}"
    return ""


def _listed(partitions: list[tuple[str, int]]) -> str:
    shown = [f"{topic}-{number}" for topic, number in partitions[:_MOST_NAMED]]
    more = len(partitions) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
