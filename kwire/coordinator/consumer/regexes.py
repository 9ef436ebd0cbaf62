"""Regular expressions in subscriptions: RE2's syntax, matched against whole topic names.

Rules:

- RE2 takes time in proportion to the name, whatever the expression. There are limits for the length
  of an expression, the memory of its automaton, and the number of compiled expressions. So no
  client can stop the broker with an expression.
- An expression sees every topic, internal topics too. Each name is matched once: groups share the
  results, and after a change of the topics only new names are matched.
- The event loop looks up known results. Matching (``answer``) reads nothing but its questions, so a
  thread may do it.

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
"""The longest expression in characters: it has room for a list of hundreds of names."""

MEMORY_BYTES = 1 << 18
"""The most memory of one automaton; RE2 refuses an expression that needs more.

This bounds the time of an expression too: some milliseconds to compile it, and a few more for each
name. A listing of ``LONGEST`` characters fits in.
"""

COMPILED_AT_MOST = 32
"""How many compiled expressions are kept, each with the memory of its automaton."""

FOUND_AT_MOST = 1_000
"""For how many expressions the results are kept."""

NAMES_AT_MOST = 16
"""How many changes of the topics' names are kept, so that only new names have to be matched."""

COMPILING_COST = 30
"""The cost of compiling an expression, in names to match."""

SHORT = 50
"""Matching takes time in proportion to the expression; this many characters count as short."""

QUICK_COST = 300
"""Questions above this cost go to a thread; a question of this cost takes one or two ms."""


def check_regex(regex: str) -> None:
    """Raise KafkaError (INVALID_REGULAR_EXPRESSION) unless this is a regular expression."""
    if len(regex) > LONGEST:
        raise _invalid(regex, f"it is longer than {LONGEST} characters")
    compiled(regex)


class Question(NamedTuple):
    """Which names does an expression match, besides those that are ``known`` to match?"""

    regex: str
    names: frozenset[str]
    known: frozenset[str] = frozenset()

    @property
    def cost(self) -> int:
        """How long the answer takes, in names to match with a short expression."""
        return (COMPILING_COST + len(self.names)) * (1 + len(self.regex) // SHORT)


def answer(questions: Iterable[Question]) -> dict[str, frozenset[str]]:
    """The names that each expression matches as a whole.

    An invalid expression, which another broker with another library took, matches nothing.
    """
    found = {}
    for regex, names, known in questions:
        try:
            match = compiled(regex).fullmatch
        except KafkaError:
            found[regex] = frozenset[str]()
        else:
            found[regex] = known.union(name for name in names if match(name))
    return found


class _Found(NamedTuple):
    """The names that an expression matched, as of a version of all names."""

    version: int
    names: frozenset[str]


class RegexMatches:
    """The existing topics that expressions match, for all groups of a broker."""

    def __init__(self) -> None:
        self._revision = -1
        self._version = 0
        self._names: dict[int, frozenset[str]] = {0: frozenset()}
        self._found: dict[str, _Found] = {}

    def look_up(
        self, regexes: Iterable[str], topics: Topics
    ) -> tuple[dict[str, frozenset[str]], list[Question]]:
        """The known results of expressions, and the questions for the others."""
        found, questions = {}, []
        for question in self.questions(regexes, topics):
            if question.names:
                questions.append(question)
            else:
                found[question.regex] = question.known
                self._remember(question.regex, question.known)
        return found, questions

    def questions(self, regexes: Iterable[str], topics: Topics) -> list[Question]:
        """The questions for expressions; one without names if the result is known."""
        self._follow_topics(topics)
        return [self._question(regex) for regex in regexes]

    def remember(self, answers: Mapping[str, frozenset[str]], version: int) -> None:
        """Keep the answers to questions of a ``version``."""
        for regex, names in answers.items():
            self._remember(regex, names, version)

    @property
    def version(self) -> int:
        """A number that grows with every change of the topics' names."""
        return self._version

    def _follow_topics(self, topics: Topics) -> None:
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
def compiled(regex: str) -> Any:
    """The expression of RE2; it is kept for the next use."""
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
        raise _invalid(regex, _reason_of(error)) from error


def _invalid(regex: str, why: str) -> KafkaError:
    shown = regex if len(regex) <= 100 else f"{regex[:100]}…"
    return KafkaError(
        ErrorCode.INVALID_REGULAR_EXPRESSION,
        f"SubscribedTopicRegex `{shown}` is not a valid regular expression: {why}.",
    )


def _reason_of(error: Exception) -> str:
    reason = error.args[0] if error.args else ""
    return reason.decode(errors="replace") if isinstance(reason, bytes) else str(reason)
