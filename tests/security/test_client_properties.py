"""Kafka's client properties: what a command takes from them, and what it says of a mistake."""

import json
from base64 import urlsafe_b64decode

import pytest

from kwire.client.peer import open_tcp
from kwire.security.client_properties import ClientFileError, read_client_properties
from kwire.security.jaas import parse_jaas
from kwire.security.oauth import unsecured
from kwire.security.own_logins import token_of
from tests.support.certificates import Authority

CA = Authority()
MODULES = "org.apache.kafka.common.security"
LINE = f'{MODULES}.plain.PlainLoginModule required username="alice" password="hush";'
LOGIN = f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={LINE}\n"


@pytest.fixture
def read(tmp_path):
    """Reads a text as client properties, from a file of this mode."""

    def read(text, mode=0o600):
        path = tmp_path / "client.properties"
        path.write_text(text, encoding="utf-8")
        path.chmod(mode)
        return read_client_properties(str(path))

    return read


def test_a_file_for_plaintext_says_only_where(read):
    """Settings of producers and consumers don't count; no secret, so everybody may read it."""
    found = read("bootstrap.servers=a:1,b:2\nclient.id=me\nacks=all\ngroup.id=g\n", 0o644)
    assert found == (open_tcp, "a:1,b:2", "me")


def test_what_opens_a_secured_stream(read, tmp_path):
    """Each protocol and mechanism, with stores of PEM and PKCS12, and secrets kept elsewhere."""
    p12 = CA.sign("alice").write_pkcs12(tmp_path / "alice.p12", "hush", [CA])
    ca = tmp_path / "ca.pem"
    ca.write_text(CA.certificate_pem)
    token = tmp_path / "token.jwt"
    token.write_text("a.b.c\n")
    token.chmod(0o600)
    secrets = tmp_path / "secrets"
    secrets.write_text("line=" + LINE.replace("\\", "\\\\"))
    secrets.chmod(0o600)
    pem = f"ssl.truststore.type=PEM\nssl.truststore.location={ca}\n"
    keys = f"ssl.keystore.location={p12}\nssl.keystore.password=hush\n"
    sasl = "security.protocol=SASL_SSL\nsasl.mechanism="
    jaas = f"sasl.jaas.config={LINE}\n"
    for text in (
        "security.protocol=SSL\n",
        f"security.protocol=ssl\n{pem}{keys}ssl.endpoint.identification.algorithm=\n",
        LOGIN,
        f"{sasl}SCRAM-SHA-512\n{jaas}{pem}",
        f"{sasl}SCRAM-SHA-256\n{jaas.replace('hush', 'x').replace(';', ' tokenauth=true;')}",
        f"{sasl}OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url=file:{token}\n",
        (
            f"{sasl}PLAIN\nsasl.jaas.config=${{f:{secrets}:line}}\nconfig.providers=f\n"
            "config.providers.f.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
        ),
    ):
        assert read(text).open_stream is not open_tcp
    assert token_of(str(token), None) == "a.b.c"


def test_a_token_that_nobody_signed():
    """Kafka's options for tests; its claims are those of the JAAS line, and it ends."""
    line = parse_jaas('x.Y required unsecuredLoginStringClaim_sub="alice";')
    token = token_of("", line)
    claims = unsecured(token)
    assert claims["sub"] == "alice"
    assert claims["exp"] - claims["iat"] == 3600
    header = token.partition(".")[0]
    assert json.loads(urlsafe_b64decode(header + "=" * (-len(header) % 4))) == {"alg": "none"}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("security.protocol=TLS\n", "TLS for configuration security.protocol: must be one of PLA"),
        (LOGIN.replace("=PLAIN\n", "=X\n"), "X for configuration sasl.mechanism: must"),
        (LOGIN.replace("=PLAIN\n", "=GSSAPI\n"), "must name a key and whose it is"),
        (LOGIN.replace("sasl.mechanism=PLAIN\n", ""), "value None for configuration sasl.mechanis"),
        (LOGIN.replace("sasl.jaas.config", "sasl.jaas.confg"), "sasl.jaas.confg: there is no sett"),
        (LOGIN.replace("username", "user"), "must have the name and password of a login"),
        (LOGIN.replace(";", ""), "a JAAS line ends with a semicolon"),
        ("ssl.truststore.type=DER\n", "DER for configuration ssl.truststore.type: must be one of"),
        ("ssl.enabled.protocols=SSLv3\n", "kwire speaks TLSv1.2 and TLSv1.3 only"),
        ("ssl.provider=BC\n", "BC for configuration ssl.provider: kwire loads no Java classes"),
        (
            "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.location=/no/such\n",
            "/no/such for configuration ssl.truststore.location: cannot read /no/such",
        ),
        (
            "security.protocol=SSL\nssl.truststore.type=PEM\nssl.truststore.certificates=hush\n",
            "ssl.truststore.certificates: no certificates can be read",
        ),
        (
            "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n",
            "sasl.oauthbearer.token.endpoint.url: must name a file with a token",
        ),
        (
            (
                "security.protocol=SASL_SSL\nsasl.mechanism=OAUTHBEARER\n"
                "sasl.oauthbearer.token.endpoint.url=https://x\n"
            ),
            "kwire reads tokens from files only",
        ),
    ],
)
def test_a_mistake_is_one_line_without_secrets(read, tmp_path, text, said):
    """It names the file, the setting, its value and what is allowed."""
    with pytest.raises(ClientFileError) as caught:
        read(text)
    line = str(caught.value)
    assert said in line
    assert line.startswith(f"{tmp_path / 'client.properties'}: Invalid value ")
    assert "\n" not in line
    assert "hush" not in line


def test_a_file_with_a_password_that_everybody_may_read_is_refused(read):
    """The line says what to do; so does that of a file that isn't there."""
    with pytest.raises(ClientFileError, match=r"--command-config: everybody .*chmod o-rwx"):
        read(LOGIN, 0o644)
    with pytest.raises(ClientFileError, match="--command-config: cannot read /no/such"):
        read_client_properties("/no/such")
