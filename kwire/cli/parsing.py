"""The parser of command lines: argparse's, with options anywhere and with suggestions.

Rules:

- Options may stand before the command or its action, ``kwire -b host topics list``, and names may
  follow options, ``produce orders --format json FILE``.
- A word that is wrong is one line, with the word that was probably meant, and exit code 2. Only who
  names no command or no action is shown which there are.
"""

import argparse
import sys
from collections.abc import Collection, Iterable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NoReturn

from kwire import __version__
from kwire.cli.commands import COMMANDS, overview
from kwire.cli.suggestions import closest, did_you_mean
from kwire.cli.tables import one_line

if TYPE_CHECKING:
    Actions = argparse._SubParsersAction[argparse.ArgumentParser]
else:
    Actions = argparse._SubParsersAction

_WITH_VALUES = {"-b", "--bootstrap-server", "--cluster", "--command-config", "--timeout"}
"""Options that many commands have and that a value follows, which is no command."""

_EXAMPLES = "examples:\n"


class _Help(argparse.HelpFormatter):
    """The help of a command; its examples keep their lines."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return text if text.startswith(_EXAMPLES) else super()._fill_text(text, width, indent)


class Parser(argparse.ArgumentParser):
    """The parser of a command or an action; those of its actions are of the same class."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"formatter_class": _Help, **settings})
        self._words: list[str] = []

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse does; the words are kept for what is said about a wrong one."""
        self._words = list(args or ())
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Say what is wrong with the command line; exit with 2."""
        wrong = self._wrong_option(self._words)
        if wrong:
            self._refuse(wrong)
        if not actions_of(self):
            pointer = "" if message.endswith("?") else f"; {self.prog} --help shows how"
            self._refuse(f"{message}{pointer}")
        self.print_help(sys.stderr)
        self.exit(2, f"\n{self.prog}: {message}\n")

    def take_late(self, options: argparse.Namespace, late: list[str]) -> None:
        """Add names that are given after options to their list, which argparse has ended."""
        lists = [one for one in self._actions if not one.option_strings and one.nargs in ("*", "+")]
        unknown = [one for one in late if one.startswith("-") and one != "-"]
        if unknown:
            self._refuse(self._wrong_option(unknown, guesses=False))
        if not lists:
            self._refuse(f"too many words: {' '.join(late)}; {self.prog} --help shows how")
        values = list(getattr(options, lists[-1].dest) or ())
        try:
            values += [self._get_value(lists[-1], one) for one in late]
        except argparse.ArgumentError as error:
            self.error(str(error))
        setattr(options, lists[-1].dest, values)

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        """As argparse does, with a suggestion."""
        if action.choices is None or value in action.choices:
            return
        known = list(map(str, action.choices))
        if isinstance(action, argparse._SubParsersAction):
            guess = did_you_mean(value, known) or f": it has {', '.join(known)}"
            self._refuse(f"there is no {action.metavar} {value}{guess}".replace("ACTION", "action"))
        guess = did_you_mean(value, known) or f": choose from {', '.join(known)}"
        name = "/".join(action.option_strings) or action.metavar
        self._refuse(f"{name} {value} is unknown{guess}")

    def _wrong_option(self, words: Sequence[str], *, guesses: bool = True) -> str:
        """What to say about an option that does not exist; empty if there is none.

        With ``guesses`` only about one that is like an option that exists.
        """
        known = self._option_string_actions
        for word in words:
            name = word.partition("=")[0]
            if name == "--":
                break
            if not name.startswith("-") or any(one.startswith(name) for one in known):
                continue
            guess = did_you_mean(name, known) if name.startswith("--") else ""
            if guess or not guesses:
                return (
                    f"there is no option {name}{guess or f'; {self.prog} --help lists the options'}"
                )
        return ""

    def _refuse(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {one_line(message)}\n")


class _Top(Parser):
    """The parser of all commands; its help has their sections."""

    def format_help(self) -> str:
        return overview()


class _Commands(Actions):
    """The commands; what the table of commands says about each needn't be said again."""

    def add_parser(self, name: str, **settings: Any) -> argparse.ArgumentParser:
        """Add a command."""
        command = COMMANDS[name]
        sentence = f"{command.help[:1].upper()}{command.help[1:]}."
        return super().add_parser(
            name,
            **{
                "help": command.help,
                "description": sentence,
                "epilog": _EXAMPLES + "".join(f"  {line}\n" for line in command.examples),
                **settings,
            },
        )


def make_parser(names: Iterable[str]) -> "tuple[argparse.ArgumentParser, Actions]":
    """The parser with some of the commands, and its commands."""
    parser: argparse.ArgumentParser = _Top(prog="kwire")
    parser.add_argument("--version", action="version", version=f"kwire {__version__}")
    of_commands: type[argparse.ArgumentParser] = Parser
    commands = parser.add_subparsers(
        dest="command", required=True, metavar="COMMAND", action=_Commands, parser_class=of_commands
    )
    for name in names:
        import_module(COMMANDS[name].module).add_parser(commands)
    return parser, commands


def actions_of(parser: argparse.ArgumentParser) -> "list[Actions]":
    """The actions of a command, such as list and create of topics: one group of them, or none."""
    return [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]


def parse(given: Sequence[str]) -> argparse.Namespace:
    """The options of a command line; SystemExit for a wrong one, and for ``--help``."""
    words = name_first(given, COMMANDS)
    if words[:1] == ["help"]:
        words = name_first([*words[1:], "--help"], COMMANDS)
    name = words[0] if words and not words[0].startswith("-") else None
    parser, commands = make_parser([name] if name in COMMANDS else [])
    if name is None:
        return parser.parse_args(words)
    if name not in COMMANDS:
        parser.exit(2, f"kwire: {one_line(_no_command(name, words[1:]))}\n")
    chosen = commands.choices[name]
    for actions in actions_of(chosen):
        words = [name, *name_first(words[1:], actions.choices)]
    options, late = parser.parse_known_args(words)
    if late:
        for actions in actions_of(chosen):
            chosen = actions.choices[getattr(options, actions.dest)]
        assert isinstance(chosen, Parser)
        chosen.take_late(options, late)
    return options


def name_first(words: Sequence[str], names: Collection[str]) -> list[str]:
    """The words with the name of a command, or an action, before the options that preceded it."""
    place = _place_of_name(words, names)
    return list(words) if not place else [words[place], *words[:place], *words[place + 1 :]]


def _place_of_name(words: Sequence[str], names: Collection[str]) -> int | None:
    """Where the name is: no value of an option. None if there is none."""
    perhaps: int | None = None
    before = ""
    for place, word in enumerate(words):
        if word == "--":
            break
        if not word.startswith("-") and before not in _WITH_VALUES:
            if word in names:
                return place
            if not before.startswith("-"):
                return place if perhaps is None else perhaps
            if perhaps is None:  # the value of an option that is not known here, or mistyped
                perhaps = place
        before = word
    return perhaps


def _no_command(name: str, rest: Sequence[str]) -> str:
    """What to say about a command that does not exist; the action is corrected as well."""
    meant = closest(name, COMMANDS)
    if meant is None:
        return f"there is no command {name}; kwire --help lists the commands"
    _, commands = make_parser([meant])
    words = [meant]
    given = name_first(rest, ())[:1]
    for actions in actions_of(commands.choices[meant]):
        action = closest(given[0], actions.choices) if given else None
        words += [action] if action else []
    return f"there is no command {name}: did you mean kwire {' '.join(words)}?"
