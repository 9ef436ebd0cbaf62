"""``partition.metadata``: the id of the topic that a partition's directory belongs to.

Format: ``version: 0`` and ``topic_id: <22 characters of base64>``, a line each. KIP-516.
"""

from pathlib import Path

from kwire.log.disk import Disk
from kwire.protocol.types import uuid_from_str, uuid_to_str

FILE_NAME = "partition.metadata"


def read_topic_id(directory: Path, disk: Disk) -> bytes | None:
    """The 16 bytes of the topic's id; None where there is no such file; ValueError if broken."""
    text = disk.read_text(directory / FILE_NAME)
    if text is None:
        return None
    fields = dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
    if fields.get("version") != "0":
        raise ValueError(f"{directory / FILE_NAME} has version {fields.get('version')}")
    return uuid_from_str(fields.get("topic_id", ""))


def write_topic_id(directory: Path, topic_id: bytes, disk: Disk) -> None:
    """Write the file."""
    text = f"version: 0\ntopic_id: {uuid_to_str(topic_id)}"
    disk.write_atomically(directory / FILE_NAME, text.encode())
