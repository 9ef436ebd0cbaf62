"""``kwire dump-log``: print the files of a log, in the words of Kafka's DumpLogSegments.

Exit codes: 0 if every file is correct, 1 if something is wrong with a file, 2 for a wrong command
line.
"""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kwire.cli.output import fail

if TYPE_CHECKING:
    from kwire.log.dump.lines import Decoder, Line, Options, Problems

_DECODERS = ("offsets", "transaction_log", "share_group_state", "cluster_metadata")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    dump = commands.add_parser(
        "dump-log",
        description="Prints segments, indexes, snapshots and checkpoints. The command changes no "
        "file.",
    )
    dump.add_argument(
        "files", metavar="FILE", nargs="+", type=Path, help="a file, or a directory of log files"
    )
    dump.add_argument("--json", action="store_true", help="print one JSON object per line")
    flags = (
        ("--print-data-log", "print keys and payloads"),
        ("--deep-iteration", "print every record, not only batches"),
        ("--skip-record-metadata", "print only keys and payloads of records"),
        ("--index-sanity-check", "check indexes as a broker does at its start"),
        ("--verify-index-only", "check indexes against their segment without printing entries"),
    )
    for name, help_text in flags:
        dump.add_argument(name, action="store_true", help=help_text)
    dump.add_argument(
        "--max-bytes", type=int, metavar="SIZE", help="read at most SIZE bytes of a segment"
    )
    decoders = dump.add_mutually_exclusive_group()
    for name in _DECODERS:
        text = f"decode the records as {name.replace('_', ' ')} records"
        decoders.add_argument(f"--{name.replace('_', '-')}-decoder", action="store_true", help=text)
    dump.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Dump every file; returns the exit code."""
    from kwire.log.dump.lines import Problems

    problems = Problems()
    broken = 0
    for given in options.files:
        broken |= _dump_all(given, options, problems)
    sys.stdout.flush()
    for line in problems.lines():
        print(line, file=sys.stderr)
    return 1 if broken or problems else 0


def _dump_all(given: Path, options: argparse.Namespace, problems: "Problems") -> int:
    """Dump a file, or the files of a directory; 1 if one can't be dumped."""
    from kwire.log.dump.lines import DumpError

    broken = 0
    try:
        paths = _paths(given)
    except OSError as error:
        sys.stdout.flush()
        return fail(f"cannot read {given}: {error.strerror}")
    for path in paths:
        try:
            _dump(path, _options(options), options.json, problems)
        except DumpError as error:
            sys.stdout.flush()
            broken = fail(str(error))
    return broken


def _dump(path: Path, options: "Options", as_json: bool, problems: "Problems") -> None:
    from kwire.log.dump.dump import dump_file

    for line in dump_file(path, options, problems):
        print(_json(path, line) if as_json else line.text)


def _json(path: Path, line: "Line") -> str:
    import json

    return json.dumps({"file": str(path), **line.fields}, ensure_ascii=False)


def _paths(given: Path) -> list[Path]:
    """The log files in a directory, sorted, or the given file itself; OSError."""
    from kwire.log.dump.dump import is_dumpable

    if not given.is_dir():
        return [given]
    return sorted(path for path in given.iterdir() if is_dumpable(path))


def _options(options: argparse.Namespace) -> "Options":
    from kwire.log.dump.lines import INT_MAX, Options

    return Options(
        decoder=_decoder(options),
        deep_iteration=options.deep_iteration,
        print_data_log=options.print_data_log,
        skip_record_metadata=options.skip_record_metadata,
        max_bytes=INT_MAX if options.max_bytes is None else options.max_bytes,
        index_sanity_check=options.index_sanity_check,
        verify_index_only=options.verify_index_only,
    )


def _decoder(options: argparse.Namespace) -> "Decoder | None":
    if not any(getattr(options, f"{name}_decoder") for name in _DECODERS):
        return None
    from kwire.cli import record_decoders

    for name in _DECODERS:
        if getattr(options, f"{name}_decoder"):
            decoder: Decoder = getattr(record_decoders, f"decode_{name}")
            return decoder
    return None
