"""The marks in a data directory that show how the process that used it last has ended.

Rules:

- ``.kafka_cleanshutdown`` exists after a clean stop: all records were on the disk. It has the epoch
  of the broker's registration. A mark with the epoch of an earlier registration doesn't count.
- ``kwire-boot-id`` names the boot of the machine in which the directory was used. If the machine
  hasn't restarted since, the page cache has lost nothing, however the process ended.
- Without either mark, a power cut may have taken records that other brokers count on. The boot is
  noted only after the broker has registered and reported this. Otherwise a second crash would hide
  the loss.

Format: the first is Kafka's JSON, ``{"version":0,"brokerEpoch":N}``; -1 stands for a single broker.
The second is a line of text. Source: CleanShutdownFileHandler of Kafka, KIP-966.
"""

import json
from contextlib import suppress
from pathlib import Path

from kwire.log.disk import Disk

CLEAN_SHUTDOWN_FILE = ".kafka_cleanshutdown"
BOOT_FILE = "kwire-boot-id"

NO_EPOCH = -1


class StopMarks:
    """The marks in one directory, as they were when it was opened."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        """Read the marks; OSError."""
        self._clean = directory / CLEAN_SHUTDOWN_FILE
        self._boot = directory / BOOT_FILE
        self._disk = disk
        self.was_clean = CLEAN_SHUTDOWN_FILE in disk.names(directory)
        self.broker_epoch = _epoch_in(self._content(self._clean))
        self.is_same_boot = self._content(self._boot) == self._line

    @property
    def _line(self) -> bytes:
        return f"{self._disk.boot_id()}\n".encode()

    def _content(self, path: Path) -> bytes:
        """A small file; empty if it is missing, or can't be read."""
        with suppress(OSError):
            return self._disk.read_bytes(path) or b""
        return b""

    @property
    def may_lack_records(self) -> bool:
        """Whether a power cut may have taken records."""
        return not (self.was_clean or self.is_same_boot)

    def are_of(self, broker_epoch: int) -> bool:
        """Whether a broker that was registered with this epoch has all its records."""
        return self.is_same_boot or (self.was_clean and self.broker_epoch == broker_epoch)

    def note_start(self) -> None:
        """Remove the mark of a clean stop; OSError."""
        if self.was_clean:
            self._disk.remove(self._clean)
            self._disk.sync_directory(self._clean.parent)

    def note_boot(self) -> None:
        """Note the machine's boot, once other brokers know of lacking records; OSError."""
        if not self.is_same_boot:
            self._disk.write_atomically(self._boot, self._line)

    def note_stop(self, broker_epoch: int) -> None:
        """Note a clean stop; OSError."""
        mark = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
        self._disk.write_atomically(self._clean, mark.encode())


def _epoch_in(content: bytes) -> int:
    """The broker epoch in a mark; -1 for a mark of an older version, or a broken one."""
    try:
        found = json.loads(content)["brokerEpoch"]
    except (ValueError, LookupError, TypeError):
        return NO_EPOCH
    return found if isinstance(found, int) else NO_EPOCH
