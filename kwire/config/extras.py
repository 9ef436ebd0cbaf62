"""What to say when a package of an extra (``kwire[cluster]``, …) isn't installed.

kwire isn't on a package index, so the command installs the extra from a checkout.
"""


def needs(extra: str, *packages: str) -> str:
    """``needs the package h11, which isn't installed: pip install -e '.[cluster]' in a checkout …``

    The end of a sentence that begins with the feature or the setting; ``extra`` has the packages.
    """
    *first, last = packages
    names = f"s {', '.join(first)} and {last}, which aren't" if first else f" {last}, which isn't"
    return f"needs the package{names} installed: {command(extra)}"


def command(extra: str) -> str:
    """How to install an extra."""
    return f"pip install -e '.[{extra}]' in a checkout of kwire"
