"""``ssl.principal.mapping.rules``: rules that turn the name in a certificate into a user name.

Rules:

- A rule is ``DEFAULT``, which takes the whole name as it is, or ``RULE:pattern/replacement/``. An
  ``L`` or ``U`` behind the rule makes the result lower or upper case.
- The first rule whose pattern matches the whole name gives the user name.
- ``$1`` in a replacement stands for the first group of the pattern. ``\\/`` is a slash.
- RE2 matches the patterns (``patterns``), in linear time: a client can't choose a name whose match
  takes long.
- Names have the form of RFC 2253, the most specific part first: ``CN=alice,OU=users,O=Example``.

Source: SslPrincipalMapper of Kafka; X500Principal.getName of Java.
"""

import re
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

from kwire.security.patterns import compile_pattern

_RULE = re.compile(
    r"\s*(?:(DEFAULT)|RULE:((?:\\.|[^\\/])*)/((?:\\.|[^\\/])*)/([LU]?))\s*(?:,|\n|$)", re.DOTALL
)
_REFERENCE = re.compile(r"\\(.)|\$([0-9]+)", re.DOTALL)
_SPECIAL = re.compile(r'([,+"\\<>;])|^([ #])|( )$')
_KEYWORDS = {
    "commonName": "CN",
    "organizationalUnitName": "OU",
    "organizationName": "O",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
_NUMBERED = {
    "emailAddress": ("1.2.840.113549.1.9.1", 0x16),
    "serialNumber": ("2.5.4.5", 0x13),
    "surname": ("2.5.4.4", 0x0C),
    "title": ("2.5.4.12", 0x0C),
    "givenName": ("2.5.4.42", 0x0C),
}
"""Name parts for which Java writes no keyword but the object identifier and the encoded value. Each
has its identifier, and the ASN.1 type of its value."""

Subject = Sequence[Sequence[tuple[str, str]]]


class _Rule(NamedTuple):
    pattern: Any  # as re.Pattern; None: the whole name
    replacement: str
    case: str


class MappingRules:
    """The mapping rules of a listener; ValueError for a text that is not a list of rules."""

    def __init__(self, text: str) -> None:
        self._rules: list[_Rule] = []
        position = 0
        text = text.strip()
        while position < len(text):
            found = _RULE.match(text, position)
            if found is None:
                raise ValueError(f"invalid rule: {text[position:]}")
            default, pattern, replacement, case = found.groups()
            compiled = None if default else compile_pattern(pattern)
            self._rules.append(_Rule(compiled, replacement or "", case or ""))
            position = found.end()

    def name_of(self, distinguished_name: str) -> str | None:
        """The user name; None if no rule matches."""
        for pattern, replacement, case in self._rules:
            if pattern is None:
                return distinguished_name
            found = pattern.fullmatch(distinguished_name)
            if found is not None:
                name = _REFERENCE.sub(partial(_replaced, found), replacement)
                return name.lower() if case == "L" else name.upper() if case == "U" else name
        return None


def _replaced(found: Any, part: re.Match[str]) -> str:
    """A part of a replacement: ``\\x`` is x, and ``$12`` is group 12, or group 1 before a 2."""
    if part[1] is not None:
        return part[1]
    digits = part[2]
    for end in range(len(digits), 0, -1):
        if int(digits[:end]) <= (found.re.groups):
            return (found[int(digits[:end])] or "") + digits[end:]
    return "$" + digits


def distinguished_name(subject: Subject) -> str:
    """Write a certificate's name, as ``ssl.SSLSocket.getpeercert`` returns it, in Java's form."""
    return ",".join("+".join(_part(*pair) for pair in pairs) for pairs in reversed(subject))


def _part(kind: str, value: str) -> str:
    if kind in _NUMBERED:
        number, tag = _NUMBERED[kind]
        encoded = value.encode()
        if len(encoded) < 128:
            return f"{number}=#{bytes((tag, len(encoded))).hex()}{encoded.hex()}"
    return f"{_KEYWORDS.get(kind, kind)}={_SPECIAL.sub(_escaped, value)}"


def _escaped(found: re.Match[str]) -> str:
    return "\\" + found[0]
