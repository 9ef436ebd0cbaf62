"""A certificate authority (CA) for ``kwire secure init``, and the certificates that it signs.

Importing this needs the package cryptography.

Rules:

- All keys are on the curve P-256, which every client of TLS 1.2 and 1.3 supports.
- Strict clients refuse certificates without certain extensions of RFC 5280 (allowed uses of the
  key, identifiers of the key and of its signer). Every certificate has these extensions.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_PEM = serialization.Encoding.PEM
_BOTH_SIDES = (ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH)
_BEFORE = timedelta(hours=1)
"""A certificate is valid from this time before now on: the clocks of machines differ."""


class Pair:
    """A private key and its certificate."""

    def __init__(self, key: ec.EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self.key = key
        self.certificate = certificate

    @property
    def certificate_pem(self) -> str:
        """The certificate as PEM."""
        return self.certificate.public_bytes(_PEM).decode()

    @property
    def key_pem(self) -> str:
        """The private key as PEM, not encrypted."""
        how = serialization.NoEncryption()
        return self.key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, how).decode()


class Authority(Pair):
    """A CA: a private key and a certificate that can sign other certificates."""

    def sign(self, name: str, hosts: Sequence[str], days: int) -> Pair:
        """Make a key and a certificate for a broker, valid for ``days`` days.

        ``hosts`` are the host names and IP addresses under which clients connect to the broker. The
        certificate expires together with the CA's, if that is earlier.
        """
        alternatives = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self.sign_again(subject, alternatives, days)

    def sign_again(
        self, subject: x509.Name, alternatives: x509.SubjectAlternativeName, days: int
    ) -> Pair:
        """Make a new key, and a certificate with the names of an older certificate; valid for
        ``days`` days.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        issuer, last = self.certificate.subject, self.certificate.not_valid_after_utc
        builder = _builder(subject, issuer, key, self.key, days, last)
        for extension, is_critical in (
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_usage(is_authority=False), True),
            (x509.ExtendedKeyUsage(_BOTH_SIDES), False),
            (alternatives, False),
        ):
            builder = builder.add_extension(extension, is_critical)
        return Pair(key, builder.sign(self.key, hashes.SHA256()))


class NewAuthority(Authority):
    """A CA that has just made its own key and certificate, valid for ``days`` days."""

    def __init__(self, name: str, days: int) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = _builder(subject, subject, key, key, days)
        builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        builder = builder.add_extension(_usage(is_authority=True), True)
        super().__init__(key, builder.sign(key, hashes.SHA256()))


def is_address(host: str) -> bool:
    """Whether a host is an IP address, not a name."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _alternative(host: str) -> x509.GeneralName:
    return x509.IPAddress(ip_address(host)) if is_address(host) else x509.DNSName(host)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    issuer_key: ec.EllipticCurvePrivateKey,
    days: int,
    last: datetime | None = None,
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    ends = now + timedelta(days=days)
    public = key.public_key()
    own = x509.SubjectKeyIdentifier.from_public_key(public)
    issuers = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(ends if last is None else min(ends, last))
        .add_extension(own, False)
        .add_extension(issuers, False)
    )


def _usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )
