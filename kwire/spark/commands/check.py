"""``kwire pipeline check``: say what is wrong with a pipeline's file, without starting Spark."""

import argparse
import sys

from kwire.cli.output import fail, wrong
from kwire.spark.commands.reading import add_examples, add_file, read_or_tell
from kwire.spark.settings import PipelineSettings, WrongSetting


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
    """What the cluster doesn't have; empty if all is there."""
    from kwire.spark.broker_view import UNREACHABLE, BrokerView

    try:
        with BrokerView(settings.source, patience_s=0) as view:
            found = view.topics(settings.source.topics)
    except UNREACHABLE as error:
        return f"the cluster at {settings.source.bootstrap_servers} doesn't answer: {error}"
    missing = [one for one in settings.source.topics if one not in found]
    return f"the cluster has no topic {', '.join(missing)}" if missing else ""
