"""The TLS of a listener: where keys and certificates come from, versions, cipher suites."""

import ssl

import pytest

from kwire.config.broker import BrokerConfig
from kwire.config.settings import ConfigError
from kwire.security.principal import Principal
from kwire.security.tls import NoPrincipal, Tls, openssl_name, server_context
from tests.support.certificates import Authority

CA = Authority()
SERVER = CA.sign("server")
INLINE = {
    "ssl.keystore.type": "PEM",
    "ssl.keystore.key": SERVER.key_pem(),
    "ssl.keystore.certificate.chain": SERVER.certificate_pem,
}


def _settings(given):
    return BrokerConfig.load({"listeners": "SSL://:0", **given}).of_listener("SSL")


def _error(given):
    with pytest.raises(ConfigError) as caught:
        Tls(_settings(given))
    assert "\n" not in str(caught.value)
    assert "PRIVATE KEY" not in str(caught.value)
    return str(caught.value)


def test_keys_from_files_and_settings(tmp_path):
    """PEM in a file or inline, encrypted or not, and PKCS12 under its name or Java's default."""
    plain = str(SERVER.write_pem(tmp_path / "plain.pem"))
    locked = str(SERVER.write_pem(tmp_path / "locked.pem", "hush"))
    p12 = str(SERVER.write_pkcs12(tmp_path / "store.p12", "hush", [CA]))
    for given in (
        INLINE,
        {**INLINE, "ssl.keystore.key": SERVER.key_pem("hush"), "ssl.key.password": "hush"},
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": plain},
        {"ssl.keystore.type": "PEM", "ssl.keystore.location": locked, "ssl.key.password": "hush"},
        {
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.location": p12,
            "ssl.keystore.password": "hush",
        },
        {
            "ssl.keystore.location": p12,
            "ssl.keystore.password": "hush",
            "ssl.truststore.location": p12,
            "ssl.truststore.password": "hush",
            "ssl.client.auth": "required",
        },
    ):
        context = server_context(_settings(given))
        assert context.options & ssl.OP_NO_RENEGOTIATION
        assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert [ca["subject"] for ca in context.get_ca_certs()][-1] == ((("commonName", "test CA"),),)


def test_a_key_that_everybody_may_read_is_refused(tmp_path):
    """As ssh does; the line says what to do."""
    path = SERVER.write_pem(tmp_path / "key.pem")
    path.chmod(0o644)
    said = _error({"ssl.keystore.type": "PEM", "ssl.keystore.location": str(path)})
    assert f"chmod o-rwx {path}" in said


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"ssl.keystore.type": "PEM", "ssl.keystore.location": "/no/such"}, "No such file"),
        ({**INLINE, "ssl.keystore.key": "nonsense"}, "no private key with its certificates"),
        ({**INLINE, "ssl.keystore.key": CA.key_pem()}, "key values mismatch"),
        ({**INLINE, "ssl.keystore.key": SERVER.key_pem("hush")}, "no private key"),
        ({**INLINE, "ssl.client.auth": "required"}, "needs the CA of the clients' certificates"),
        (
            {**INLINE, "ssl.truststore.certificates": "x"},
            "truststore.certificates: no certificates",
        ),
        ({**INLINE, "ssl.principal.mapping.rules": "x"}, "mapping.rules: invalid rule: x"),
        ({**INLINE, "ssl.cipher.suites": "TLS_NONSENSE"}, "OpenSSL knows none"),
        ({**INLINE, "ssl.cipher.suites": "TLS_AES_128_GCM_SHA256"}, "name all or none"),
        (
            {
                **INLINE,
                "ssl.enabled.protocols": "TLSv1.3",
                "ssl.cipher.suites": "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
            },
            "no version of TLS is left",
        ),
    ],
)
def test_what_cannot_be_used_is_one_line(given, problem):
    """Without a word of the key."""
    assert problem in _error(given)


def test_stores_of_java(tmp_path):
    """A file that isn't what it says, and a wrong password, are named."""
    path = tmp_path / "store.jks"
    path.touch(mode=0o600)
    path.write_bytes(b"\xfe\xed\xfe\xed\0\0\0\2")
    assert "no keys or certificates can be read" in _error({"ssl.keystore.location": str(path)})
    SERVER.write_pkcs12(path, "hush")
    given = {"ssl.keystore.location": str(path), "ssl.keystore.password": "wrong"}
    assert "ssl.keystore.password is wrong" in _error(given)


def test_versions_and_cipher_suites():
    """Java's names; suites of one version leave the other version out."""
    context = server_context(_settings({**INLINE, "ssl.enabled.protocols": "TLSv1.3"}))
    assert context.minimum_version is context.maximum_version is ssl.TLSVersion.TLSv1_3
    suite = "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256"
    context = server_context(_settings({**INLINE, "ssl.cipher.suites": suite}))
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    names = {cipher["name"] for cipher in context.get_ciphers() if cipher["protocol"] == "TLSv1.2"}
    assert names == {"ECDHE-ECDSA-AES128-GCM-SHA256"}
    known = {cipher["name"] for cipher in ssl.create_default_context().get_ciphers()}
    for java in (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "TLS_DHE_RSA_WITH_AES_128_GCM_SHA256",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    ):
        assert openssl_name(java) in known


class _Shown:
    """A connection whose client has shown a certificate with this name."""

    def __init__(self, name):
        self._name = name

    def getpeercert(self):
        return {"subject": [[("organizationalUnitName", self._name())]]}


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        (lambda: "a" * 32_768, "has 32771 bytes, and may have 32767"),
        (lambda: "al\ud800ice", "half of a surrogate pair"),
        (b"al\xffice".decode, "isn't text"),
    ],
)
def test_a_name_that_no_message_can_carry_is_no_principal(name, problem):
    """The last one, OpenSSL gives to Python, which can't decode it."""
    tls = Tls(_settings(INLINE))
    assert tls.principal(_Shown(lambda: "alice")) == Principal("User", "OU=alice")
    with pytest.raises(NoPrincipal, match=problem) as caught:
        tls.principal(_Shown(name))
    str(caught.value).encode()
