"""``kwire completion``: the script that lets a shell complete commands, options and names.

The script asks ``kwire completion topics`` or ``groups`` for the names of a cluster. What is typed
so far comes on standard input, because it may say which cluster. A name that a shell would not take
as it stands is left out: anybody may call a group ``$(command)``.
"""

import argparse
import shlex
import sys
from typing import TYPE_CHECKING, NoReturn

from kwire.cli.output import fail

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kwire.client.cluster import Cluster

SHELLS = ("bash", "zsh", "fish", "tcsh")
NAMED = ("topics", "groups")
TIMEOUT_S = 2.0
"""Who has pressed the tab key waits no longer for a cluster."""

_KINDS = {"TOPIC": "topics", "TOPIC[:N]": "topics", "GROUP": "groups"}
"""What options and arguments call the names of a cluster."""
_BASH = """
_kwire_names_KIND() {
  compgen -W "$(printf '%s' "$COMP_LINE" | kwire completion KIND 2>/dev/null)" -- "$1"
}
"""
_ZSH = """
_kwire_names_KIND() {
  local -a names
  names=(${(f)"$(print -r -- "$words" | kwire completion KIND 2>/dev/null)"})
  compadd -a names
}
"""


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    completion = commands.add_parser(
        "completion",
        description="Prints a script that completes commands, options, topics and groups. bash: "
        'eval "$(kwire completion bash)" in ~/.bashrc; zsh: kwire completion zsh > a directory of '
        "$fpath/_kwire; fish: kwire completion fish > ~/.config/fish/completions/kwire.fish.",
    )
    completion.add_argument(
        "shell",
        metavar="SHELL",
        choices=(*SHELLS, *NAMED),
        help=f"{', '.join(SHELLS)}; {' or '.join(NAMED)}: the names that such a script asks for",
    )
    completion.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the script, or names; returns the exit code."""
    if options.shell in NAMED:
        return _show_names(options.shell)
    try:
        import shtab
    except ImportError:
        from kwire.config.extras import needs

        return fail(f"shell completion {needs('cli', 'shtab')}")
    from kwire.cli.commands import COMMANDS
    from kwire.cli.parsing import make_parser

    parser, _ = make_parser(COMMANDS)
    for action in _actions(parser):
        kind = _KINDS.get(str(action.metavar))
        if kind is not None:
            action.complete = _completed(kind)  # type: ignore[attr-defined]
    print(shtab.complete(parser, shell=options.shell))
    return 0


def _actions(parser: argparse.ArgumentParser) -> "Iterator[argparse.Action]":
    """The options and arguments of all commands that name what is there already."""
    for action in parser._actions:
        if not isinstance(action, argparse._SubParsersAction):
            yield action
            continue
        for name, inner in action.choices.items():
            if name != "create":
                yield from _actions(inner)


def _completed(kind: str) -> dict[str, object]:
    """How each shell asks for names, as shtab takes it."""
    function = f"_kwire_names_{kind}"
    return {
        "bash": function,
        "zsh": function,
        "fish": f"(commandline | kwire completion {kind} 2>/dev/null)",
        "tcsh": f"`kwire completion {kind}`",
        "preamble": {"bash": _BASH.replace("KIND", kind), "zsh": _ZSH.replace("KIND", kind)},
    }


class _Quiet(argparse.ArgumentParser):
    """A parser of a line that isn't finished."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(message)


def _typed() -> list[str]:
    """The words on standard input, whose last may be unfinished; none from a terminal."""
    if sys.stdin is None or sys.stdin.isatty():
        return []
    line = sys.stdin.read()
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def _show_names(kind: str) -> int:
    """Print the names of the cluster that the words name; returns the exit code."""
    from kwire.cli.options import add_cluster_options
    from kwire.cli.session import run_on_cluster

    parser = _Quiet(add_help=False, allow_abbrev=False)
    add_cluster_options(parser)
    try:
        options, _ = parser.parse_known_args(_typed())
    except ValueError as error:
        return fail(str(error))
    options.timeout = TIMEOUT_S

    async def work(cluster: "Cluster") -> int:
        for name in sorted(await _names(cluster, kind)):
            if shlex.quote(name) == name:
                print(name)
        return 0

    return run_on_cluster(options, work)


async def _names(cluster: "Cluster", kind: str) -> list[str]:
    """The topics that clients made, or all groups."""
    if kind == "groups":
        from kwire.client.group_overview import types_of_groups

        return list(await types_of_groups(cluster))
    found = await cluster.metadata(None)
    return [topic.name for topic in found.topics if topic.name and not topic.is_internal]
