"""The TLS contexts of connections to etcd, made from the files that the settings name.

Rules:

- When a file has changed, the next connection uses a new context. If that can't be made, the log
  says so, and the old context stays in use.
- A key file that every user of the machine may read is refused.
"""

import logging
import os
import ssl
from pathlib import Path

from kwire.config.metadata_store import SETTING
from kwire.config.secret_files import UnsafeFile, read_secret
from kwire.metadata.etcd.gateway import Access
from kwire.metadata.store import StoreUnusable

log = logging.getLogger(__name__)


class EtcdTls:
    """The contexts of connections to etcd; StoreUnusable if the first can't be made."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._times = _times(access)
        self._context = _context(access)

    def current(self) -> ssl.SSLContext:
        """The context of a new connection."""
        times = _times(self._access)
        if times != self._times:
            self._times = times
            try:
                self._context = _context(self._access)
            except StoreUnusable as error:
                log.error("connections to etcd keep their old certificate: %s", error)
            else:
                log.info("connections to etcd have read their certificates again")
        return self._context


def _files(access: Access) -> dict[str, str]:
    """The files that are used, by their settings."""
    found = {}
    for name, file in zip(Access._fields, access, strict=True):
        if name.endswith("_file") and file is not None:
            found[f"{SETTING}.tls.{name.replace('_', '.')}"] = file
    return found


def _times(access: Access) -> list[float]:
    """When each file was changed; -1 for one that can't be looked at."""
    times = []
    for file in _files(access).values():
        try:
            times.append(os.stat(file).st_mtime)
        except OSError:
            times.append(-1.0)
    return times


def _context(access: Access) -> ssl.SSLContext:
    """The system's CAs are trusted where no file names others."""
    for setting, file in _files(access).items():
        if not Path(file).is_file():
            raise StoreUnusable(f"{setting}={file}: this file does not exist")
    try:
        if access.certificate_file is not None:
            read_secret(access.key_file or access.certificate_file)
        context = ssl.create_default_context(cafile=access.ca_file)
        if access.certificate_file is not None:
            context.load_cert_chain(access.certificate_file, access.key_file)
    except (ssl.SSLError, OSError, UnsafeFile) as error:
        raise StoreUnusable(f"{SETTING}.tls: the files can't be used: {error}") from error
    return context
