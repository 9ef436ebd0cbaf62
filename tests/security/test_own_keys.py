"""What is made of keys and certificates follows the files and the dynamic configs."""

from kwire.config.broker import BrokerConfig
from kwire.security.own_keys import LOOK_INTERVAL_S, OwnKeys
from tests.support.certificates import Authority

CA = Authority()
LOCATION = "ssl.keystore.location"


def test_what_has_changed_is_made_again(tmp_path, caplog):
    """A look finds a new file, a dynamic config, and goes on with the old one after a mistake."""
    path, other = (CA.sign(n).write_pem(tmp_path / f"{n}.pem") for n in ("first", "second"))
    given = {"listeners": "SSL://:0", "ssl.keystore.type": "PEM", LOCATION: str(path)}
    dynamic = {}
    made = []

    def make(settings):
        if settings.text(LOCATION) == "/no/such":
            raise settings.error(LOCATION, "/no/such", "it isn't there")
        made.append(settings.text(LOCATION))
        return len(made)

    keys = OwnKeys("SSL", BrokerConfig.load(given), lambda: dict(dynamic), make)
    times = (n * (LOOK_INTERVAL_S + 1) for n in range(10))
    assert [keys.current(next(times)) for _ in range(2)] == [1, 1]
    dynamic[f"listener.name.ssl.{LOCATION}"] = "/no/such"
    assert keys.current(next(times)) == 1
    assert "the listener SSL keeps its old certificate" in caplog.text
    dynamic[f"listener.name.ssl.{LOCATION}"] = str(other)
    assert keys.current(next(times)) == 2
    assert made == [str(path), str(other)]
    other.unlink()
    assert keys.current(next(times)) == 3
