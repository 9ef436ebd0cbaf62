"""docs/SETTINGS.md: every setting with what it is for, made from the tables of kwire/config.

`make docs` runs this; tests/test_settings_doc.py fails when the page isn't what the tables say.
"""

from pathlib import Path

from kwire.config.broker import profile_of
from kwire.config.documentation import documentation
from kwire.config.settings import BROKER, CLIENT_METRICS, DYNAMIC_BROKER, GROUP, TOPIC, settings
from kwire.config.without_effect import REASONS

PAGE = Path(__file__).with_name("SETTINGS.md")

HEAD = """# Settings

`make docs` writes this page from the tables in `kwire/config`. kwire knows every setting of Apache
Kafka 4.4, and marks a setting that has no effect in kwire. Set a broker setting with
`kwire serve -o NAME=VALUE` or in a properties file, and the other settings with `kafka-configs` or
any admin client. DescribeConfigs gives clients the same texts.
"""

PARTS = (
    (BROKER, "The broker"),
    (DYNAMIC_BROKER, "The broker, only while it runs"),
    (TOPIC, "Topics"),
    (GROUP, "Groups"),
    (CLIENT_METRICS, "Metrics of clients"),
)


def page() -> str:
    """The text of the page."""
    parts = [HEAD]
    for scope, title in PARTS:
        profile = profile_of({}) if scope == BROKER else {}
        rows = ["| setting | type | default | what it is for |", "| --- | --- | --- | --- |"]
        for name, setting in settings(scope).items():
            default = _code(profile.get(name, setting.default))
            rows.append(f"| `{name}` | {setting.type.lower()} | {default} | {_text(scope, name)} |")
        parts.append(f"\n## {title}\n\n" + "\n".join(rows) + "\n")
    rows = ["| why | settings |", "| --- | --- |"]
    for reason, names in REASONS.items():
        listed = ", ".join(f"`{name}{'…' * name.endswith('.')}`" for name in names)
        rows.append(f"| {reason} | {listed} |")
    parts.append("\n## Why some have no effect\n\n" + "\n".join(rows) + "\n")
    return "".join(parts)


def _code(default: str | None) -> str:
    return f"`{default}`" if default else "" if default == "" else "unset"


def _text(scope: str, name: str) -> str:
    return (
        documentation(scope)[name].replace("|", "\\|").replace("__", "\\_\\_").replace("*", "\\*")
    )


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
