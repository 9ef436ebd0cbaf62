"""``partition.metadata``: the id of the topic that a partition's directory belongs to.

Format: one line ``version: 0``, one line ``topic_id: <22 characters of base64>``. KIP-516.
"""

from pathlib import Path

from kwire.log.disk import Disk
from kwire.log.segment import LOG_SUFFIX
from kwire.protocol.types import uuid_from_str, uuid_to_str

FILE_NAME = "partition.metadata"


def read_topic_id(directory: Path, disk: Disk) -> bytes | None:
    """The topic id, 16 bytes; None if the file is missing; ValueError if it is broken."""
    path = directory / FILE_NAME
    try:
        text = disk.read_text(path)
        if text is None:
            return None
        fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
        if fields.get("version") != "0":
            raise ValueError(f"it has version {fields.get('version')}")
        return uuid_from_str(fields.get("topic_id", ""))
    except ValueError as error:
        raise ValueError(f"{path} is broken: {error}") from error


def holds_another_log(directory: Path, topic_id: bytes, disk: Disk) -> bool:
    """Whether a directory holds the log of another topic, or of an unknown one.

    The directory of a log whose creation failed halfway has the topic's id, or no segment yet, and
    can be used. OSError.
    """
    try:
        found_id = read_topic_id(directory, disk)
    except ValueError:
        return True
    if found_id is not None:
        return found_id != topic_id
    try:
        return any(name.endswith(LOG_SUFFIX) for name in disk.names(directory))
    except FileNotFoundError:
        return False


def write_topic_id(directory: Path, topic_id: bytes, disk: Disk) -> None:
    """Write the file. It stays after a power loss if its directory is synced afterwards."""
    text = f"version: 0\ntopic_id: {uuid_to_str(topic_id)}"
    disk.replace_file(directory / FILE_NAME, text.encode())
