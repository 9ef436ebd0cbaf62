"""Java's old key stores: files that the JDK's keytool made, and files that nobody should make.

The files in tests/data/jks have the passwords ``store-hush`` and, for the key, ``key-hush``.
"""

import ssl
from hashlib import sha1
from pathlib import Path

import pytest

from kwire.config.broker import BrokerConfig
from kwire.config.settings import ConfigError
from kwire.security.jks import MAGIC, JksError, read_jks
from kwire.security.tls import server_context

FILES = Path(__file__).parents[1] / "data" / "jks"
KEYS = (FILES / "two-passwords.jks").read_bytes()
TRUST = (FILES / "trust.jks").read_bytes()


def _signed(content, password="store-hush"):
    secret = password.encode("utf-16-be") + b"Mighty Aphrodite" + content
    return content + sha1(secret).digest()


def test_what_keytool_wrote(tmp_path):
    """A key with its certificate, which TLS takes; a truststore has the certificate only."""
    keys = read_jks(KEYS, "store-hush", "key-hush")
    path = tmp_path / "key.pem"
    path.write_bytes(keys.key + keys.chain)
    ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)
    trust = read_jks(TRUST, "store-hush")
    assert trust == (b"", b"", keys.chain)
    assert keys.trusted == keys.chain
    assert read_jks(TRUST, "") == trust


def test_a_listener_with_them(tmp_path):
    """Under the type JKS, which is Kafka's default."""
    path = tmp_path / "keys.jks"
    path.touch(mode=0o600)
    path.write_bytes(KEYS)
    given = {
        "listeners": "SSL://:0",
        "ssl.keystore.location": str(path),
        "ssl.keystore.password": "store-hush",
        "ssl.key.password": "key-hush",
        "ssl.truststore.location": str(FILES / "trust.jks"),
        "ssl.client.auth": "required",
    }
    context = server_context(BrokerConfig.load(given).of_listener("SSL"))
    assert [ca["subject"] for ca in context.get_ca_certs()] == []
    assert context.cert_store_stats()["x509"] == 1
    for name, problem in (
        ("ssl.keystore.password", "its password is wrong, or the file has been changed"),
        ("ssl.key.password", "the password of its private key is wrong"),
    ):
        with pytest.raises(ConfigError, match=problem) as caught:
            server_context(BrokerConfig.load({**given, name: "guess"}).of_listener("SSL"))
        assert "guess" not in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"\xce\xce\xce\xce\0\0\0\2\0\0\0\0", "it is no JKS file"),
        (MAGIC + b"\0\0\0\3\0\0\0\0", "it is no JKS file"),
        (MAGIC + b"\0\0\0\2\0\0\0\1", "it ends early"),
        (MAGIC + b"\0\0\0\2\xff\xff\xff\xff" + bytes(20), "kind 0"),
        (MAGIC + b"\0\0\0\2\0\0\0\1\0\0\0\2\0\0" + bytes(8) + b"\0\0\xff\xff", "it ends early"),
        (
            MAGIC + b"\0\0\0\2\0\0\0\1\0\0\0\1\0\0" + bytes(8) + b"\0\0\0\4\x31\x02ab\0\0\0\0",
            "malformed",
        ),
        (
            MAGIC + b"\0\0\0\2\0\0\0\1\0\0\0\1\0\0" + bytes(8) + b"\0\0\0\4\x30\x02\x30\0\0\0\0\0",
            "a way that JKS doesn't know",
        ),
        (
            MAGIC + b"\0\0\0\2\0\0\0\1\0\0\0\1\0\0" + bytes(8) + b"\0\1\0\1" + bytes(1 << 16 | 1),
            "more than 65536 bytes",
        ),
    ],
)
def test_what_is_malformed_is_an_error(content, problem):
    """And nothing else, whatever the file says of its own sizes."""
    with pytest.raises(JksError, match=problem):
        read_jks(_signed(content), "store-hush")


def test_a_file_that_was_changed(tmp_path):
    """The password finds it out."""
    changed = bytearray(KEYS)
    changed[40] ^= 1
    with pytest.raises(JksError, match="has been changed"):
        read_jks(bytes(changed), "store-hush", "key-hush")
