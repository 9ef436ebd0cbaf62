"""Key stores are opened once, however often a change of keys looks at them."""

from cryptography.hazmat.primitives.serialization import pkcs12

from kwire.config.broker import BrokerConfig
from kwire.security.key_changes import check_change
from kwire.security.stores import key_and_chain
from tests.support.certificates import Authority

CA = Authority()


def _listener(tmp_path, name):
    path = CA.sign("server").write_pkcs12(tmp_path / name, "hush")
    given = {
        "listeners": "SSL://:0",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(path),
        "ssl.keystore.password": "hush",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": CA.certificate_pem,
    }
    return BrokerConfig.load(given).of_listener("SSL")


def test_a_change_of_keys_opens_each_file_once(tmp_path, monkeypatch):
    """To open one takes up to a quarter of a second, and all clients wait."""
    opened = []
    load = pkcs12.load_pkcs12

    def counted(data, password):
        opened.append(data)
        return load(data, password)

    monkeypatch.setattr(pkcs12, "load_pkcs12", counted)
    before, after = _listener(tmp_path, "before.p12"), _listener(tmp_path, "after.p12")
    check_change(before, after, is_among_brokers=True)
    assert len(opened) == 2


def test_a_file_that_has_changed_is_opened_anew(tmp_path):
    """Under the same name."""
    listener = _listener(tmp_path, "keys.p12")
    first = key_and_chain(listener)
    assert key_and_chain(listener) == first
    _listener(tmp_path, "keys.p12")
    assert key_and_chain(listener) != first
