"""``python -m bench.cold_reader HOST:PORT TOPIC DIRECTORY``: reads a partition from the disk.

It repeats until it is stopped: it evicts the partition's files from the page cache, then fetches
all of them, a megabyte at a time. It prints the bytes of each fetch on a line.
"""

import os
import socket
import sys
from pathlib import Path

from bench.load import frame_of, read_response
from bench.rows.fetch import FETCH_VERSION, fetch_request
from bench.usage import MB
from kwire.record.batch import complete_batches


def evict(directory: Path) -> None:
    """Evict the files of a partition from the page cache."""
    for path in directory.iterdir():
        if path.suffix not in (".log", ".index", ".timeindex"):
            continue
        fd = os.open(path, os.O_RDONLY)
        try:
            os.fsync(fd)
            os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(fd)


def read_all(connection: socket.socket, topic: str) -> None:
    """Fetch a partition from its start to its end."""
    offset = 0
    while True:
        fetch = fetch_request(topic, offset, MB, 0)
        connection.sendall(frame_of(fetch, FETCH_VERSION))
        answer = read_response(connection, fetch, FETCH_VERSION).responses[0].partitions[0]
        data = bytes(answer.records)
        if answer.error_code or not data:
            return
        for batch in complete_batches(data):
            offset = batch.next_offset
        print(len(data), flush=True)


def main() -> None:
    """Read until the end of this process."""
    bootstrap, topic, directory = sys.argv[1:]
    host, _, port = bootstrap.rpartition(":")
    with socket.create_connection((host, int(port))) as connection:
        while True:
            evict(Path(directory))
            read_all(connection, topic)


if __name__ == "__main__":
    main()
