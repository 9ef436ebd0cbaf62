"""``cordoned.log.dirs``: data directories that get no new replicas (KIP-1066).

``*`` stands for all of them. What lies in such a directory stays there and is served.
"""

from collections.abc import Sequence

from kwire.config.values import ConfigError

NAME = "cordoned.log.dirs"
ALL = "*"


def check_cordoned(cordoned: Sequence[str], directories: Sequence[str]) -> None:
    """Raise ConfigError unless all entries are of ``log.dirs``, or ``*`` stands alone."""
    if list(cordoned) == [ALL]:
        return
    problem = ""
    if missing := [entry for entry in cordoned if entry not in directories and entry != ALL]:
        problem = f"its entries must be entries of log.dirs, and {', '.join(missing)} is none"
    elif ALL in cordoned:
        problem = f"{ALL} stands for all directories, alone"
    elif len(set(cordoned)) != len(cordoned):
        problem = "no entry may be there twice"
    if problem:
        raise ConfigError(NAME, ",".join(cordoned), problem)


def cordoned_entries(cordoned: Sequence[str], directories: Sequence[str]) -> list[str]:
    """Those of ``directories`` that are cordoned."""
    return [one for one in directories if list(cordoned) == [ALL] or one in cordoned]
