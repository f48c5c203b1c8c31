"""A certificate authority for tests: real keys and certificates, in files as a volume of Kubernetes holds them."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Authority:
    """Signs certificates for names."""

    def __init__(self, name: str = "an authority of the tests") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = distinguished_name(name)
        builder = _certificate(self._name, self._name, self._key.public_key(), timedelta(days=2))
        self._certificate = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True).sign(
            self._key, hashes.SHA256()
        )

    @property
    def pem(self) -> bytes:
        """Return the authority's own certificate."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(
        self, folder: Path, *names: str, valid: timedelta = timedelta(days=1), trusting: Authority | None = None
    ) -> dict[str, str]:
        """Return the settings of a process with a certificate for these names, whose files are in `folder`.

        Files that are there are replaced one after the other, each in one step. The process trusts `trusting`, or else
        this authority.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _certificate(distinguished_name(names[0] if names else "nobody"), self._name, key.public_key(), valid)
        if names:
            alternatives = x509.SubjectAlternativeName([x509.DNSName(name) for name in names])
            builder = builder.add_extension(alternatives, critical=False)
        certificate = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        folder.mkdir(parents=True, exist_ok=True)
        files = {"tls.crt": certificate, "tls.key": private, "ca.crt": (trusting or self).pem}
        for name, content in files.items():
            (folder / f"{name}.new").write_bytes(content)
            os.replace(folder / f"{name}.new", folder / name)
        return {
            "HANSEI_TLS_CERTIFICATE": str(folder / "tls.crt"),
            "HANSEI_TLS_KEY": str(folder / "tls.key"),
            "HANSEI_TLS_AUTHORITIES": str(folder / "ca.crt"),
        }


def distinguished_name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, valid: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + valid)
    )
