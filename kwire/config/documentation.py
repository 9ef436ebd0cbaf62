"""What each setting is for: for DescribeConfigs, docs/SETTINGS.md and what is said of bad values.

The texts are ``documentation.tsv``: scope, name, text, in one or two sentences with units and
values that mean something else. They are read when somebody asks for them; everybody is given the
same objects.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from kwire.config.without_effect import has_effect

LONGEST = 200
"""How many characters a text has at most."""

NO_EFFECT = "No effect here. In Kafka: "
"""What a text begins with of a setting that nothing here goes by."""


@cache
def documentation(scope: str) -> Mapping[str, str]:
    """The text of every setting of a scope by its name."""
    table = Path(__file__).with_name("documentation.tsv").read_text(encoding="utf-8")
    prefix = scope + "\t"
    rows = (line.split("\t") for line in table.splitlines() if line.startswith(prefix))
    return MappingProxyType({name: _told(scope, name, text) for _, name, text in rows})


def _told(scope: str, name: str, text: str) -> str:
    if has_effect(scope, name):
        return text
    is_word = not text[1].isupper() and not text.startswith(("Java", "SASL", "Kerberos"))
    return NO_EFFECT + (text[0].lower() + text[1:] if is_word else text)
