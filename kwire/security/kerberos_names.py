"""``sasl.kerberos.principal.to.local.rules``: rules that turn a Kerberos principal into a user
name.

Rules:

- A principal is ``alice@REALM`` or ``alice/host@REALM``. A name without realm and host is already a
  user name.
- ``DEFAULT`` applies to principals of the broker's own realm. The user name is the first part.
- ``RULE:[n:format](pattern)s/from/to/g/L`` applies to principals with n parts. In the format,
  ``$0`` stands for the realm, ``$1`` and ``$2`` for the parts. If there is a pattern, the result
  must match it as a whole. Then ``to`` replaces ``from``, once or (``g``) everywhere. ``L`` makes
  the name lower case, ``U`` upper case.
- The first rule that applies gives the name.
- RE2 matches the patterns (``patterns``), in linear time: a client can't choose a name whose match
  takes long.
- A result that contains ``/`` or ``@`` is not accepted as a user name.

Source: KerberosShortNamer, KerberosRule, KerberosName of Kafka.
"""

import re
from typing import Any, NamedTuple

from kwire.security.patterns import compile_pattern

_PRINCIPAL = re.compile(r"([^/@]+)(?:/([^/@]+))?(?:@([^/@]+))?")
_RULE = re.compile(
    r"(?P<default>DEFAULT)|RULE:\[(?P<count>\d+):(?P<format>[^\]]*)\](?:\((?P<match>[^)]*)\))?"
    r"(?:s/(?P<from>[^/]*)/(?P<to>[^/]*)/(?P<all>g)?)?/?(?P<case>[LU])?"
)
_PARAMETER = re.compile(r"\$(\d+)")
_NOT_SIMPLE = re.compile(r"[/@]")


class NoLocalName(Exception):
    """No rule gives a user name for a principal. The text is for the log."""


class _Rule(NamedTuple):
    parts: int  # 0: the rule DEFAULT
    format: str = ""
    match: Any = None  # as re.Pattern; None: everything
    found: Any = None
    replacement: str = ""
    is_global: bool = False
    case: str = ""


class LocalNames:
    """The rules of a listener of a broker in ``realm``; ValueError for a wrong rule."""

    def __init__(self, rules: list[str], realm: str) -> None:
        self._rules = [_rule(text.strip()) for text in rules]
        self._realm = realm

    def name_of(self, principal: str) -> str:
        """The user name of a principal; NoLocalName."""
        found = _PRINCIPAL.fullmatch(principal)
        if found is None:
            raise NoLocalName(f"{principal[:80]!r} is no principal")
        primary, host, realm = found.groups()
        if host is None and realm is None:
            return primary
        parts = [realm or "", primary, *([host] if host is not None else [])]
        for rule in self._rules:
            name = self._applied(rule, parts)
            if name is None:
                continue
            if _NOT_SIMPLE.search(name):
                break
            return name.lower() if rule.case == "L" else name.upper() if rule.case == "U" else name
        raise NoLocalName(
            f"no rule of sasl.kerberos.principal.to.local.rules fits {principal[:80]!r}"
        )

    def _applied(self, rule: _Rule, parts: list[str]) -> str | None:
        if not rule.parts:
            return parts[1] if parts[0] == self._realm else None
        if len(parts) - 1 != rule.parts:
            return None
        base = _PARAMETER.sub(lambda one: parts[int(one[1])], rule.format)
        if rule.match is not None and not rule.match.fullmatch(base):
            return None
        if rule.found is None:
            return base
        return str(rule.found.sub(rule.replacement, base, count=0 if rule.is_global else 1))


def _rule(text: str) -> _Rule:
    """Parse one rule; ValueError."""
    found = _RULE.fullmatch(text)
    if found is None:
        raise ValueError(f"invalid rule: {text}")
    if found["default"]:
        return _Rule(0)
    count = int(found["count"])
    used = [int(number) for number in _PARAMETER.findall(found["format"])]
    if not 1 <= count <= 2 or any(number > count for number in used):
        raise ValueError(f"a principal has no such parts: {text}")
    match = None if found["match"] is None else compile_pattern(found["match"])
    pattern = None if found["from"] is None else compile_pattern(found["from"])
    replacement = _PARAMETER.sub(r"\\g<\1>", (found["to"] or "").replace("\\", "\\\\"))
    groups = [int(number) for number in _PARAMETER.findall(found["to"] or "")]
    if pattern is not None and any(number > pattern.groups for number in groups):
        raise ValueError(f"there is no such group: {text}")
    rest = bool(found["all"]), found["case"] or ""
    return _Rule(count, found["format"], match, pattern, replacement, *rest)
