"""A real etcd as operators run it: open to all, with certificates on both sides, with passwords.

Each kind of ``KINDS`` is a context manager. What it yields has all that a store needs to connect.
"""

import json
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple

from kwire.metadata.etcd.gateway import Access
from tests.support.certificates import Authority
from tests.support.etcd import Etcd

WAIT_S = 30
USER, PASSWORD = "kwire", "secret"
PREFIX = "contract"
"""The user may read and write the keys below this prefix, and no others."""


class Running(NamedTuple):
    """An etcd, and how a store reaches it."""

    etcd: Etcd
    access: Access


@contextmanager
def plain(directory: Path) -> Iterator[Running]:
    """Without any login."""
    with Etcd() as etcd:
        yield Running(etcd, Access())


@contextmanager
def with_certificates(directory: Path) -> Iterator[Running]:
    """TLS; etcd and its clients show certificates of a CA of their own."""
    authority = Authority()
    own = authority.sign("kwire")
    certificate, key = directory / "certificate.pem", directory / "key.pem"
    certificate.write_text(own.certificate_pem + authority.certificate_pem)
    key.touch(mode=0o600)
    key.write_text(own.key_pem())
    files = str(certificate), str(key)
    with Etcd(tls=files) as etcd:
        yield Running(etcd, Access(None, None, str(certificate), *files))


@contextmanager
def with_passwords(directory: Path) -> Iterator[Running]:
    """Users with passwords; that of the brokers has the role that the documentation asks for."""
    with Etcd() as etcd:
        allow(etcd)
        post(etcd, "auth/enable", {})
        yield Running(etcd, Access(USER, PASSWORD))


def allow(etcd: Etcd) -> None:
    """Add root, and the user of the brokers; both count when the login is enabled."""
    post(etcd, "auth/role/add", {"name": "root"})
    post(etcd, "auth/role/add", {"name": "brokers"})
    first, end = (b64encode(f"{PREFIX}{last}".encode()).decode() for last in "/0")
    grant = {"permType": "READWRITE", "key": first, "range_end": end}
    post(etcd, "auth/role/grant", {"name": "brokers", "perm": grant})
    for name, role in (("root", "root"), (USER, "brokers")):
        post(etcd, "auth/user/add", {"name": name, "password": PASSWORD})
        post(etcd, "auth/user/grant", {"user": name, "role": role})


def post(etcd: Etcd, path: str, body: dict, token: str = "") -> dict:
    """The answer to a call of an operator."""
    request = urllib.request.Request(
        f"http://{etcd.members[0].endpoint}/v3/{path}",
        json.dumps(body).encode(),
        {"Authorization": token} if token else {},
    )
    with urllib.request.urlopen(request, timeout=WAIT_S) as answer:
        return json.load(answer)


KINDS: dict[str, Callable[[Path], AbstractContextManager[Running]]] = {
    "etcd": plain,
    "etcd with certificates": with_certificates,
    "etcd with passwords": with_passwords,
}
