"""A Kerberos of the tests' own: a KDC of MIT on 127.0.0.1, with principals and their keys."""

import importlib.util
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kwire.testing.waiting import wait_until
from tests.support.ports import free_port

REALM = "KWIRE.TEST"
SBIN = "/usr/sbin:/sbin"


def missing() -> str:
    """What isn't installed, in one line; empty if all is there."""
    path = f"{os.environ.get('PATH', '')}:{SBIN}"
    for program in ("krb5kdc", "kdb5_util", "kadmin.local"):
        if shutil.which(program, path=path) is None:
            return f"no {program} (Debian, Ubuntu: apt install krb5-kdc krb5-admin-server)"
    if importlib.util.find_spec("gssapi") is None:
        return "no package gssapi: pip install gssapi, after apt install libkrb5-dev"
    return ""


class Realm:
    """A running KDC; ``environment`` is for programs that use it."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.krb5_conf = directory / "krb5.conf"
        self.environment = {
            "KRB5_CONFIG": str(self.krb5_conf),
            "KRB5_KDC_PROFILE": str(directory / "kdc.conf"),
            "KRB5RCACHEDIR": str(directory),
            "JAVA_TOOL_OPTIONS": f"-Djava.security.krb5.conf={self.krb5_conf}",
        }

    def run(self, *command: str) -> None:
        """Run a program of Kerberos."""
        path = f"{os.environ.get('PATH', '')}:{SBIN}"
        environment = {**os.environ, **self.environment, "PATH": path}
        subprocess.run(command, env=environment, check=True, capture_output=True)

    def keytab(self, principal: str) -> Path:
        """The key of a new principal, in a file."""
        path = self.directory / f"{principal.replace('/', '-')}.keytab"
        self.run("kadmin.local", "-q", f"addprinc -randkey {principal}@{REALM}")
        self.run("kadmin.local", "-q", f"ktadd -k {path} {principal}@{REALM}")
        path.chmod(0o600)
        return path


@contextmanager
def running_realm(directory: Path) -> Iterator[Realm]:
    """A KDC with an empty realm."""
    port = free_port()
    realm = Realm(directory)
    realm.krb5_conf.write_text(
        f"[libdefaults]\ndefault_realm = {REALM}\nrdns = false\ndns_lookup_kdc = false\n"
        "dns_canonicalize_hostname = false\nudp_preference_limit = 1\n"
        f"[realms]\n{REALM} = {{\nkdc = 127.0.0.1:{port}\n}}\n"
        f"[domain_realm]\nlocalhost = {REALM}\n127.0.0.1 = {REALM}\n"
    )
    (directory / "kdc.conf").write_text(
        f"[kdcdefaults]\nkdc_listen = 127.0.0.1:{port}\nkdc_tcp_listen = 127.0.0.1:{port}\n"
        f"[realms]\n{REALM} = {{\ndatabase_name = {directory}/principal\n"
        f"key_stash_file = {directory}/stash\nacl_file = {directory}/acl\n}}\n"
        f"[logging]\nkdc = FILE:{directory}/kdc.log\n"
    )
    realm.run("kdb5_util", "create", "-s", "-P", "master", "-r", REALM)
    kdc = shutil.which("krb5kdc", path=f"{os.environ.get('PATH', '')}:{SBIN}")
    assert kdc is not None
    with subprocess.Popen([kdc, "-n"], env={**os.environ, **realm.environment}) as process:
        log = directory / "kdc.log"
        wait_until(lambda: log.exists() and "commencing" in log.read_text(), what="the KDC")
        yield realm
        process.terminate()
