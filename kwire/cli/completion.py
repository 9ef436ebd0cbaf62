"""``kwire completion``: the script that lets a shell complete commands and options."""

import argparse

from kwire.cli.output import fail

SHELLS = ("bash", "zsh", "tcsh")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its options."""
    completion = commands.add_parser(
        "completion",
        description='Prints a script that completes commands and options. bash: eval "$(kwire '
        'completion bash)" in ~/.bashrc; zsh: kwire completion zsh > a directory of $fpath/_kwire.',
    )
    completion.add_argument("shell", metavar="SHELL", choices=SHELLS, help=", ".join(SHELLS))
    completion.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the script; returns the exit code."""
    try:
        import shtab
    except ImportError:
        from kwire.config.extras import needs

        return fail(f"shell completion {needs('cli', 'shtab')}")
    from kwire.cli.commands import COMMANDS
    from kwire.cli.parsing import make_parser

    parser, _ = make_parser(COMMANDS)
    print(shtab.complete(parser, shell=options.shell))
    return 0
