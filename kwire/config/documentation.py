"""A text for each setting that says what it does: for DescribeConfigs, docs/SETTINGS.md and errors.

The table is ``documentation.tsv``: scope, name, text. A text has one or two sentences; it names the
unit and the values with a special meaning. The table is read on the first call and then kept.
"""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from types import MappingProxyType

from kwire.config.without_effect import has_effect

LONGEST = 200
"""The most characters that a text may have; a test checks it."""

NO_EFFECT = "No effect here. In Kafka: "
"""The beginning of the text of a setting that has no effect in kwire."""


@cache
def documentation(scope: str) -> Mapping[str, str]:
    """The text of every setting of a scope by its name."""
    table = Path(__file__).with_name("documentation.tsv").read_text(encoding="utf-8")
    prefix = scope + "\t"
    rows = (line.split("\t") for line in table.splitlines() if line.startswith(prefix))
    return MappingProxyType({name: _with_its_effect(scope, name, text) for _, name, text in rows})


def _with_its_effect(scope: str, name: str, text: str) -> str:
    if has_effect(scope, name):
        return text
    is_word = not text[1].isupper() and not text.startswith(("Java", "SASL", "Kerberos"))
    return NO_EFFECT + (text[0].lower() + text[1:] if is_word else text)
