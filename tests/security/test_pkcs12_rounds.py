"""PKCS12 files that would stop the broker for hours are refused before their keys are derived."""

from contextlib import suppress

import pytest
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.serialization import pkcs12
from hypothesis import given
from hypothesis import strategies as st

from kwire.config.broker import BrokerConfig
from kwire.config.settings import ConfigError
from kwire.security.pkcs12_rounds import MOST_ROUNDS, rounds_of
from kwire.security.tls import Tls
from tests.support.certificates import Authority

CA = Authority()
OF_THE_MAC = 2048
"""The library has this number by itself."""


def _store(rounds, password=b"hush"):
    builder = serialization.PrivateFormat.PKCS12.encryption_builder()
    how = builder.kdf_rounds(rounds).hmac_hash(hashes.SHA256()).build(password)
    server = CA.sign("server")
    parts = b"k", server.key, server.certificate, [CA.certificate]
    return pkcs12.serialize_key_and_certificates(*parts, how)


def _with_rounds(data, before, after):
    """The file with another number of rounds, as an attacker would write it."""
    old = b"\x02\x02" + before.to_bytes(2)
    new = b"\x02\x02" + after.to_bytes(2)
    assert data.count(old) == 2
    return data.replace(old, new)


def test_the_rounds_of_a_file_are_seen_before_it_is_opened():
    """Those of its key, of its certificates, and of its MAC."""
    store = _store(5000)
    assert rounds_of(store) == 5000 + 5000 + OF_THE_MAC
    assert rounds_of(_with_rounds(store, 5000, 32_000)) == 32_000 + 32_000 + OF_THE_MAC


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (lambda: _store(5000).replace((5000).to_bytes(2), (-1).to_bytes(2, signed=True)), None),
        (lambda: b"\x30\x80" + _store(5000)[4:], "it is BER"),
        (lambda: b"nonsense", "no PKCS12 file in DER"),
        (lambda: b"", "it is no PKCS12 file"),
    ],
)
def test_what_a_listener_refuses(tmp_path, monkeypatch, content, problem):
    """In one line, without deriving anything."""
    monkeypatch.setattr("kwire.security.stores.MOST_ROUNDS", 100_000)
    path = tmp_path / "store.p12"
    path.touch(mode=0o600)
    path.write_bytes(content())
    given = {"ssl.keystore.location": str(path), "ssl.keystore.password": "hush"}
    settings = BrokerConfig.load({"listeners": "SSL://:0", **given}).of_listener("SSL")
    with pytest.raises(ConfigError, match=problem or "rounds to derive, and 100000 is the most"):
        Tls(settings)
    assert MOST_ROUNDS >= 1_000_000  # what a careful person asks openssl for


@given(st.binary(max_size=200))
def test_any_bytes_are_a_number_or_an_error(data):
    """Never another exception, and never for long."""
    with suppress(ValueError):
        assert rounds_of(data) >= 0
