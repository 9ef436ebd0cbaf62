"""docs/CLI.md: a tour, and every command with its options, made from the parsers.

`make docs` runs this; tests/test_cli_doc.py fails when the page isn't what the parsers say.
"""

import argparse
from collections.abc import Iterator
from pathlib import Path

from kwire.cli.commands import COMMANDS
from kwire.cli.parsing import actions_of, make_parser

OF_THE_CLUSTER = {"bootstrap_server", "cluster", "command_config", "timeout"}
"""Options that the tour explains for all commands that have them."""

PAGE = Path(__file__).with_name("CLI.md")
TOUR = Path(__file__).with_name("cli_tour.md")


def page() -> str:
    """The text of the page."""
    _, commands = make_parser(COMMANDS)
    parts = [TOUR.read_text(encoding="utf-8"), "\n## Every command\n"]
    for name in COMMANDS:
        text = COMMANDS[name].help
        parts += _command(f"kwire {name}", commands.choices[name], text, "###")
    return "\n".join(parts)


def _help_of(actions: "argparse._SubParsersAction[argparse.ArgumentParser]", name: str) -> str:
    return next(one.help or "" for one in actions._choices_actions if one.dest == name)


def _command(name: str, parser: argparse.ArgumentParser, text: str, mark: str) -> Iterator[str]:
    """The section of a command or an action, and those of its actions."""
    yield f"{mark} `{name}`\n"
    yield f"{parser.description or _sentence(text)}\n"
    if name.count(" ") == 1:
        yield "\n".join(["```", *COMMANDS[name.removeprefix("kwire ")].examples, "```"]) + "\n"
    inner = actions_of(parser)
    if not inner:
        arguments = [one for one in parser._actions if not isinstance(one, argparse._HelpAction)]
        own = [one for one in arguments if one.dest not in OF_THE_CLUSTER]
        rows = [f"| `{_written(one)}` | {_told(one)} |" for one in own]
        if rows:
            yield "\n".join(["| argument | what it does |", "| --- | --- |", *rows]) + "\n"
        if len(own) < len(arguments):
            yield "It also takes the options of [the cluster](#which-cluster).\n"
    for actions in inner:
        for action, its_parser in actions.choices.items():
            help_text = _help_of(actions, action)
            yield from _command(f"{name} {action}", its_parser, help_text, mark + "#")


def _sentence(text: str) -> str:
    return f"{text[:1].upper()}{text[1:]}."


def _written(action: argparse.Action) -> str:
    """How an argument is written: its options, its value, and how many of them."""
    value = str(action.metavar or action.dest.upper())
    if action.choices and not action.metavar:
        value = "|".join(map(str, action.choices))
    if action.option_strings:
        names = ", ".join(action.option_strings)
        return names if action.nargs == 0 else f"{names} {value}".replace("|", "\\|")
    return {"+": f"{value}…", "*": f"[{value}…]", "?": f"[{value}]"}.get(str(action.nargs), value)


def _told(action: argparse.Action) -> str:
    return (action.help or "").replace("|", "\\|").replace("__", "\\_\\_").replace("*", "\\*")


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
