"""Names of subjects, and the contexts that they are in.

A subject is ``name`` in the default context ``.``, or ``:.context:name``. Each context has ids of
its own. Source: QualifiedSubject of Confluent's registry.
"""

import re
from collections.abc import Callable

from kwire.registry.refusals import invalid_subject

DEFAULT_CONTEXT = "."
ALL_CONTEXTS = ":*:"
"""The prefix of subjects in any context."""

MAX_NAME_CHARS = 1024

_QUALIFIED = re.compile(r":(\.[^:]*):(.*)", re.DOTALL)
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")


def split_subject(subject: str) -> tuple[str, str]:
    """The context of a subject and its name in there."""
    found = _QUALIFIED.fullmatch(subject)
    return (found[1], found[2]) if found else (DEFAULT_CONTEXT, subject)


def join_subject(context: str, name: str) -> str:
    """The subject with this name in a context."""
    return name if context == DEFAULT_CONTEXT else f":{context}:{name}"


def normal_subject(subject: str) -> str:
    """The one way to write a subject; Refused (42208) for what is none."""
    context, name = split_subject(subject)
    if not name or len(subject) > MAX_NAME_CHARS or _CONTROL.search(subject):
        raise invalid_subject(subject)
    return join_subject(context, name)


def normal_scope(subject: str) -> str:
    """Where settings are kept: a subject, a whole context (``:.context:``), or "" for all."""
    context, name = split_subject(subject)
    if name or _CONTROL.search(subject) or len(subject) > MAX_NAME_CHARS:
        return normal_subject(subject)
    return "" if context == DEFAULT_CONTEXT else f":{context}:"


def subject_beside(subject: str, other: str) -> str:
    """``other`` as a schema of ``subject`` means it: without a context it is in the same one."""
    if _QUALIFIED.fullmatch(other):
        return normal_subject(other)
    return join_subject(split_subject(subject)[0], other)


def scopes(subject: str) -> tuple[str, ...]:
    """Where the settings of a subject may stand, the nearest first; "" is everywhere."""
    context, _ = split_subject(subject)
    return (subject, "") if context == DEFAULT_CONTEXT else (subject, f":{context}:", "")


def prefix_test(prefix: str) -> Callable[[str], bool]:
    """Whether a list with this ``subjectPrefix`` has a subject.

    A list looks at a hundred thousand subjects while others wait, so it takes few steps for each.
    """
    if prefix.startswith(ALL_CONTEXTS):
        own = prefix.removeprefix(ALL_CONTEXTS)
        if not own:
            return lambda _: True
        return lambda subject: (
            split_subject(subject)[1] if subject.startswith(":") else subject
        ).startswith(own)
    context, name = split_subject(prefix)
    full = join_subject(context, name)
    if context != DEFAULT_CONTEXT:
        return lambda subject: subject.startswith(full)
    return lambda subject: (
        subject.startswith(full)
        and (subject[:1] != ":" or split_subject(subject)[0] == DEFAULT_CONTEXT)
    )
