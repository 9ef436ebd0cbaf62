"""TLS towards etcd follows its files; ``test_etcd.py`` has a real etcd."""

import os

import pytest

from kwire.metadata.etcd.gateway import Access
from kwire.metadata.etcd.tls import EtcdTls
from kwire.metadata.store import StoreUnusable
from kwire.testing.certificates import Authority


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
