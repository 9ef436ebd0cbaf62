"""What a parser of a command line takes."""

import argparse

# Private attributes: argparse has no public way to list what a parser takes.


def arguments_of(parser: argparse.ArgumentParser) -> list[argparse.Action]:
    """Its options and arguments."""
    return parser._actions


def helps_of(actions: argparse.Action) -> dict[str, str | None]:
    """The help text of each action of a command, by name."""
    assert isinstance(actions, argparse._SubParsersAction)
    return {one.dest: one.help for one in actions._choices_actions}
