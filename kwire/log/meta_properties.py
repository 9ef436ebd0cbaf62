"""``meta.properties``: the broker and the cluster that a data directory belongs to.

Format: ``version=1``, ``cluster.id``, ``node.id``, ``directory.id``, as Java properties. Source:
MetaProperties of Kafka, version 1 (KRaft).
"""

import os
from pathlib import Path
from typing import NamedTuple

from kwire.config.properties import parse_properties
from kwire.log.disk import Disk
from kwire.protocol.types import uuid_from_str, uuid_to_str

FILE_NAME = "meta.properties"


class MetaProperties(NamedTuple):
    """Ids are text as Kafka prints them: 22 characters of base64. ``directory_id`` may be ""."""

    cluster_id: str
    node_id: int
    directory_id: str


def random_id() -> str:
    """A new id. Like Kafka's, it never begins with a dash."""
    while True:
        text = uuid_to_str(os.urandom(16))
        if not text.startswith("-"):
            return text


def read_meta_properties(directory: Path, disk: Disk) -> MetaProperties | None:
    """The content of ``meta.properties``, None if the file is missing; ValueError if invalid."""
    text = disk.read_text(directory / FILE_NAME)
    if text is None:
        return None
    found = parse_properties(text)
    if found.get("version") != "1":
        raise ValueError(f"version {found.get('version')} is not 1")
    try:
        directory_id = found.get("directory.id", "")
        if directory_id:
            uuid_from_str(directory_id)  # ValueError for one that was cut
        return MetaProperties(found["cluster.id"], int(found["node.id"]), directory_id)
    except KeyError as error:
        raise ValueError(f"{error.args[0]} is missing") from error


def write_meta_properties(directory: Path, meta: MetaProperties, disk: Disk) -> None:
    """Write the file."""
    text = (
        f"#\nversion=1\ncluster.id={meta.cluster_id}\nnode.id={meta.node_id}\n"
        f"directory.id={meta.directory_id}\n"
    )
    disk.write_atomically(directory / FILE_NAME, text.encode())
