"""Regular expressions that members subscribe with: RE2's syntax, matched against whole names.

Rules:

- RE2 takes time in proportion to the name, whatever the expression. The length of an expression,
  the memory of its automaton and the compiled expressions that are kept are limited, so a client
  can't stop the broker with one.
- An expression sees every topic, internal ones too. It is matched against each name once: groups
  share what was found, and after a change of the topics only new names are matched.
- What was found is looked up on the event loop; matching (``answer``) needs nothing but its
  questions, and may be done in a thread.

Source: TopicRegexResolver of Kafka 4.3, which uses RE2/J.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

from kwire.coordinator.consumer.topics import Topics
from kwire.errors import ErrorCode, KafkaError

MISSING = (
    "This broker has no library for regular expressions of consumer groups: "
    "install google-re2, which is one of kwire's dependencies."
)

LONGEST = 10_000
"""How many characters an expression has at most: hundreds of names that are listed have room."""

MEMORY_BYTES = 1 << 18
"""What one automaton takes at most; RE2 refuses an expression that needs more.

This bounds the time of an expression too: some milliseconds to compile it, and a few more for each
name. A listing of ``LONGEST`` characters fits in.
"""

COMPILED_AT_MOST = 32
"""How many compiled expressions are kept: their memory is that of so many automatons."""

FOUND_AT_MOST = 1_000
"""Of how many expressions it is remembered what they match."""

NAMES_AT_MOST = 16
"""How many changes of the names of topics are remembered, to match only what is new."""

COMPILING_COST = 30
"""What it costs to compile an expression: as much as to match so many names."""

SHORT = 50
"""Matching takes time in proportion to the expression; this many characters count as short."""

QUICK_COST = 300
"""Questions that cost more are answered in a thread; these take one or two ms."""


def check_regex(regex: str) -> None:
    """Raise KafkaError (INVALID_REGULAR_EXPRESSION) unless this is a regular expression."""
    if len(regex) > LONGEST:
        raise _invalid(regex, f"it is longer than {LONGEST} characters")
    _compile(regex)


class Question(NamedTuple):
    """Which names an expression matches, besides those that are ``known`` to be matched."""

    regex: str
    names: frozenset[str]
    known: frozenset[str] = frozenset()

    @property
    def cost(self) -> int:
        """How long the answer takes, in names to match with a short expression."""
        return (COMPILING_COST + len(self.names)) * (1 + len(self.regex) // SHORT)


def answer(questions: Iterable[Question]) -> dict[str, frozenset[str]]:
    """The names that each expression matches as a whole.

    One that is none, because another broker with another library took it, matches nothing.
    """
    found = {}
    for regex, names, known in questions:
        try:
            match = _compile(regex).fullmatch
        except KafkaError:
            found[regex] = frozenset[str]()
        else:
            found[regex] = known.union(name for name in names if match(name))
    return found


class _Found(NamedTuple):
    """What an expression matched among the names of a version."""

    version: int
    names: frozenset[str]


class RegexMatches:
    """What expressions match among the topics there are, for all groups of a broker."""

    def __init__(self) -> None:
        self._revision = -1
        self._version = 0
        self._names: dict[int, frozenset[str]] = {0: frozenset()}
        self._found: dict[str, _Found] = {}

    def look_up(
        self, regexes: Iterable[str], topics: Topics
    ) -> tuple[dict[str, frozenset[str]], list[Question]]:
        """What is known of expressions; and the questions whose answers aren't."""
        self._follow(topics)
        found, questions = {}, []
        for regex in regexes:
            question = self._question(regex)
            if question.names:
                questions.append(question)
            else:
                found[regex] = question.known
                self._remember(regex, question.known)
        return found, questions

    def remember(self, answers: Mapping[str, frozenset[str]], version: int) -> None:
        """Keep the answers to questions that were asked at a ``version``."""
        for regex, names in answers.items():
            self._remember(regex, names, version)

    @property
    def version(self) -> int:
        """Grows with every change of the names of topics."""
        return self._version

    def _follow(self, topics: Topics) -> None:
        if topics.revision == self._revision:
            return
        self._revision = topics.revision
        names = frozenset(topics.names())
        if names != self._names[self._version]:
            self._version += 1
            self._names[self._version] = names
            if len(self._names) > NAMES_AT_MOST:
                del self._names[next(iter(self._names))]

    def _question(self, regex: str) -> Question:
        names = self._names[self._version]
        known = self._found.get(regex)
        before = None if known is None else self._names.get(known.version)
        if known is None or before is None:
            return Question(regex, names)
        if before is names:
            return Question(regex, frozenset(), known.names)
        return Question(regex, names - before, known.names & names)

    def _remember(self, regex: str, names: frozenset[str], version: int | None = None) -> None:
        self._found.pop(regex, None)
        if len(self._found) >= FOUND_AT_MOST:
            del self._found[next(iter(self._found))]
        self._found[regex] = _Found(self._version if version is None else version, names)


@lru_cache(maxsize=COMPILED_AT_MOST)
def _compile(regex: str) -> Any:
    try:
        re2 = import_module("re2")
    except ImportError as error:
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION, MISSING) from error
    options = re2.Options()
    options.log_errors = False
    options.max_mem = MEMORY_BYTES
    options.never_capture = True
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        raise _invalid(regex, _say(error)) from error


def _invalid(regex: str, why: str) -> KafkaError:
    shown = regex if len(regex) <= 100 else f"{regex[:100]}…"
    return KafkaError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{shown}` is not a valid regular expression: {why}.",
    )


def _say(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
