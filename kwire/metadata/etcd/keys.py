"""The names of the keys that kwire has in etcd, all below one prefix."""

from kwire.metadata.session_table import CONTROLLER, live_key


class Keys:
    """The names below a prefix."""

    def __init__(self, prefix: str) -> None:
        self.prefix = f"{prefix}/"
        self.log = f"{prefix}/log/"
        self.live = f"{prefix}/live/"
        self.parts = f"{prefix}/parts/"
        self.snapshots = f"{prefix}/snapshots/"
        self.newest_snapshot = f"{prefix}/snapshot"
        self.controller = f"{prefix}/{CONTROLLER}"

    def full(self, key: str) -> str:
        """The name in etcd of a guard's key."""
        return self.prefix + key

    def commit(self, revision: int) -> str:
        """The key of one commit; keys of commits sort like their revisions."""
        return f"{self.log}{revision:016x}"

    def revision(self, key: str) -> int:
        """The revision of a commit's key."""
        return int(key.removeprefix(self.log), 16)

    def session(self, node_id: int) -> str:
        """The key of a broker's session."""
        return self.full(live_key(node_id))

    def node_id(self, key: str) -> int:
        """The broker whose session has this key."""
        return int(key.removeprefix(self.live))

    def commit_parts(self, revision: int, by: str = "") -> str:
        """The beginning of the keys of a large commit's parts; without ``by``, of any commit's."""
        return f"{self.parts}{revision:016x}/" + (f"{by}/" if by else "")

    def image_parts(self, revision: int, by: str = "") -> str:
        """The beginning of the keys of a snapshot's parts; without ``by``, of any snapshot's."""
        return f"{self.snapshots}{revision:016x}/" + (f"{by}/" if by else "")


def part_key(beginning: str, part: int) -> str:
    """The key of one part; keys of parts sort like their numbers."""
    return f"{beginning}{part:06}"


def end_of(prefix: str) -> str:
    """The end of the range of all keys with this prefix, which ends in ASCII."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
