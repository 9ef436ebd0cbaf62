"""How the scripts write topics and partitions, and what a client of theirs remembers."""

from collections.abc import Iterable, Mapping

GROUP = "g"

Owned = dict[str, set[int]]


def topic_id(name: str) -> bytes:
    """The id of a topic of this name."""
    return name.encode().ljust(16, b"\0")


def topic_name(uuid: bytes) -> str:
    """The name of a topic of this id."""
    return uuid.rstrip(b"\0").decode()


def parse_partitions(words: Iterable[str]) -> Owned:
    """``t:0,1`` and the like."""
    owned: Owned = {}
    for word in words:
        if word != "-":
            name, _, indexes = word.partition(":")
            owned[name] = {int(index) for index in indexes.split(",")}
    return owned


def show_partitions(partitions: Mapping[bytes, Iterable[int]]) -> str:
    """``t:0,1`` and the like; ``-`` for none."""
    shown = [f"{topic_name(t)}:{','.join(map(str, sorted(p)))}" for t, p in partitions.items() if p]
    return " ".join(sorted(shown)) or "-"


class ScriptMember:
    """What a client remembers between its requests."""

    def __init__(self) -> None:
        self.member_id = ""
        self.epoch = 0
        self.owned: Owned = {}
