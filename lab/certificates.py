"""The lab's certificate authority, and certificates from it, all in STATE/certificates."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_DAYS = 365
SERVER_DAYS = 90


@dataclass(frozen=True)
class Authority:
    """A certificate authority; `path` is its certificate (PEM), which clients trust."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    path: Path


@dataclass(frozen=True)
class ServerCertificate:
    """PEM files that a server takes: its chain (leaf first) and its key."""

    chain: Path
    key: Path


def make_authority(state: Path) -> Authority:
    """The authority of the lab with that state folder: the one that is there, or a new one."""
    folder = state / "certificates"
    path, key_path = folder / "ca.pem", folder / "ca.key"
    if path.exists() and key_path.exists():
        key = serialization.load_pem_private_key(key_path.read_bytes(), None)
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return Authority(x509.load_pem_x509_certificate(path.read_bytes()), key, path)
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "firstflight lab authority")])
    certificate = (
        _builder(name, name, key, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    write_key(key_path, key)
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return Authority(certificate, key, path)


def issue(authority: Authority, stem: str, names: Sequence[str]) -> ServerCertificate:
    """A server certificate for `names`, the first as subject: STEM.pem and STEM.key beside the authority's."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, names[0])])
    issuer_key = authority.key.public_key()
    certificate = (
        _builder(subject, authority.certificate.subject, key, SERVER_DAYS)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(name) for name in names]), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key), critical=False)
        .sign(authority.key, hashes.SHA256())
    )
    files = ServerCertificate(
        authority.path.with_name(f"{stem}.pem"), authority.path.with_name(f"{stem}.key")
    )
    write_key(files.key, key)
    files.chain.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return files


def write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    """Write a private key as PEM, readable by its owner alone."""
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(pem)


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
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=days))
    )


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )
