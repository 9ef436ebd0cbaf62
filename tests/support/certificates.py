"""Certificates for tests: a CA, and certificates that it signs. Needs the package cryptography."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import pkcs12
from cryptography.x509.oid import NameOID

PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8


class Certified:
    """A private key and its certificate."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self.key = key
        self.certificate = certificate

    @property
    def certificate_pem(self) -> str:
        """The certificate."""
        return self.certificate.public_bytes(PEM).decode()

    def key_pem(self, password: str = "") -> str:
        """The private key, encrypted if there is a password."""
        how: serialization.KeySerializationEncryption = serialization.NoEncryption()
        if password:
            how = serialization.BestAvailableEncryption(password.encode())
        return self.key.private_bytes(PEM, PKCS8, how).decode()

    def write_pem(self, path: Path, password: str = "") -> Path:
        """Write key and certificate into a file that only its owner may read."""
        path.touch(mode=0o600)
        path.write_text(self.key_pem(password) + self.certificate_pem)
        return path

    def write_pkcs12(self, path: Path, password: str, trusted: "Sequence[Certified]" = ()) -> Path:
        """Write key and certificate, and the certificates of CAs, into a PKCS12 file."""
        path.touch(mode=0o600)
        others = [one.certificate for one in trusted]
        how = serialization.BestAvailableEncryption(password.encode())
        path.write_bytes(
            pkcs12.serialize_key_and_certificates(b"k", self.key, self.certificate, others, how)
        )
        return path


class Authority(Certified):
    """A CA."""

    def __init__(self, name: str = "test CA") -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name([(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, subject, key, days=2)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        own = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        builder = builder.add_extension(own, False)
        signs = dict.fromkeys(("key_cert_sign", "crl_sign", "digital_signature"), True)
        others = ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement")
        others = (*others, "encipher_only", "decipher_only")
        usage = x509.KeyUsage(**signs, **dict.fromkeys(others, False))
        builder = builder.add_extension(usage, True)
        super().__init__(key, builder.sign(key, hashes.SHA256()))

    def sign(
        self,
        common_name: str,
        *,
        days: int = 1,
        organization: str = "kwire",
        hosts: Sequence[str] = ("localhost",),
    ) -> Certified:
        """A certificate for a name, and for this machine; with negative ``days`` it has expired."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(
            [(NameOID.ORGANIZATION_NAME, organization), (NameOID.COMMON_NAME, common_name)]
        )
        builder = _builder(subject, self.certificate.subject, key, days)
        names = [*map(x509.DNSName, hosts), x509.IPAddress(ip_address("127.0.0.1"))]
        builder = builder.add_extension(x509.SubjectAlternativeName(names), False)
        # Python 3.13 and newer look for it.
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())
        builder = builder.add_extension(issuer, False)
        return Certified(key, builder.sign(self.key, hashes.SHA256()))


def _name(parts: list[tuple[x509.ObjectIdentifier, str]]) -> x509.Name:
    return x509.Name([x509.NameAttribute(kind, value) for kind, value in parts])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=3))
        .not_valid_after(now + timedelta(days=days))
    )
