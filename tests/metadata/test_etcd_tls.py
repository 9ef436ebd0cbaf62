"""TLS towards etcd follows its files; ``test_etcd.py`` has a real etcd."""

import os

import pytest

from kwire.metadata.etcd.gateway import Access
from kwire.metadata.etcd.tls import EtcdTls
from kwire.metadata.store import StoreUnusable
from tests.support.certificates import Authority


def test_renewed_files_count_for_new_connections(tmp_path, caplog):
    """And what can't be used changes nothing."""
    authority = Authority()
    ca, own = tmp_path / "ca.pem", tmp_path / "own.pem"
    ca.write_text(authority.certificate_pem)
    authority.sign("broker").write_pem(own)
    tls = EtcdTls(Access(None, None, str(ca), str(own), str(own)))
    first = tls.current()
    assert tls.current() is first
    authority.sign("broker").write_pem(own)
    os.utime(own, (1, 1))
    second = tls.current()
    assert second is not first
    own.write_text("nonsense")
    assert tls.current() is second
    assert "connections to etcd keep their old certificate" in caplog.text
    own.unlink()
    assert tls.current() is second


def test_files_that_are_not_there_stop_the_start(tmp_path):
    """One line names the setting."""
    with pytest.raises(StoreUnusable, match=r"tls\.key\.file=/no/such: this file does not exist"):
        EtcdTls(Access(None, None, None, None, "/no/such"))


@pytest.mark.parametrize("has_file_of_its_own", [True, False])
def test_a_key_that_everybody_may_read_is_refused(tmp_path, has_file_of_its_own):
    """As that of a listener, whether it has a file of its own or stands before its certificate."""
    own = Authority().sign("broker").write_pem(tmp_path / "own.pem")
    own.chmod(0o644)
    key_file = str(own) if has_file_of_its_own else None
    with pytest.raises(StoreUnusable, match=f"everybody on this machine may read or write {own}"):
        EtcdTls(Access(None, None, None, str(own), key_file))
