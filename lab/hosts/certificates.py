"""The lab's certificate authority, and certificates from it, all in STATE/certificates."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal, get_args

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from firstflight.errors import UsageError

AUTHORITY_DAYS = 365
SERVER_DAYS = 90
EXPIRED_DAYS = -1
TWO_INTERMEDIATES_BYTES = 3000
OTHER_NAME = "*.elsewhere.firstflight.test"

KeyKind = Literal["ecdsa_p256", "rsa_2048"]
"""Type of the keys in a chain. RSA certificates are signed with SHA-256 and PKCS #1 v1.5."""
_PrivateKey = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
Flaw = Literal["self_signed", "other_name", "expired"]
FLAWS: tuple[Flaw, ...] = get_args(Flaw)


@dataclass(frozen=True)
class Authority:
    """A certificate authority; `path` is its certificate (PEM), which clients trust."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey
    path: Path


@dataclass(frozen=True)
class ServerCertificate:
    """PEM files for a server: the chain (leaf first) and the key."""

    chain: Path
    key: Path


def make_authority(state: Path) -> Authority:
    """Return the authority of the lab with this state folder; create it if it does not exist."""
    folder = state / "certificates"
    path, key_path = folder / "ca.pem", folder / "ca.key"
    if path.exists() and key_path.exists():
        key = serialization.load_pem_private_key(key_path.read_bytes(), None)
        if isinstance(key, ec.EllipticCurvePrivateKey):
            return Authority(x509.load_pem_x509_certificate(path.read_bytes()), key, path)
    folder.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = "firstflight lab authority"
    certificate = _authority(name, key, _name_of(name), key)
    write_key(key_path, key)
    path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return Authority(certificate, key, path)


def issue(
    authority: Authority,
    stem: str,
    names: Sequence[str],
    *,
    chain_bytes: int | None = None,
    flaw: Flaw | None = None,
    key_kind: KeyKind = "ecdsa_p256",
) -> ServerCertificate:
    """Write a server certificate for `names` (the first is the subject) to STEM.pem and STEM.key.

    `flaw`: the certificate is self-signed, is for OTHER_NAME instead of `names`, or has expired.

    `chain_bytes`: the size of the chain, as the sum of the certificates in DER. The chain gets an
    intermediate authority (two from 3000 bytes on), and the leaf gets additional names below
    `padding.firstflight.test` to reach the size. The result is 5 bytes smaller to 45 bytes larger than
    `chain_bytes`, because signatures on P-256 vary in length. Raises UsageError if the chain is already
    longer.

    `key_kind`: the key type of the leaf and the intermediate authorities. The lab's authority, which is not
    in any chain, has a P-256 key.
    """
    key = _new_key(key_kind)
    issuer = authority.certificate
    issuer_key: _PrivateKey = authority.key
    intermediates: list[x509.Certificate] = []
    for number in range(0 if chain_bytes is None else 2 if chain_bytes >= TWO_INTERMEDIATES_BYTES else 1):
        own_key = _new_key(key_kind)
        issuer = _authority(f"firstflight lab issuer {number + 1}", own_key, issuer.subject, issuer_key)
        issuer_key = own_key
        intermediates.insert(0, issuer)

    if flaw == "other_name":
        names = [OTHER_NAME]
    issuer_name = issuer.subject
    if flaw == "self_signed":
        issuer_name, issuer_key = _name_of(names[0]), key
    until = EXPIRED_DAYS if flaw == "expired" else SERVER_DAYS
    leaf = _leaf(names, key, issuer_name, issuer_key, until)
    if chain_bytes is not None:
        missing = chain_bytes - sum(_der_bytes(certificate) for certificate in [leaf, *intermediates])
        if missing < 0:
            raise UsageError(
                f"a chain for {names[0]} needs {-missing} bytes more than {chain_bytes}: use a larger size"
            )
        entry_bytes = 2 + len(_padding_name(0))
        padding = [_padding_name(number) for number in range(-(-missing // entry_bytes))]
        leaf = _leaf([*names, *padding], key, issuer_name, issuer_key, until)

    files = ServerCertificate(
        authority.path.with_name(f"{stem}.pem"), authority.path.with_name(f"{stem}.key")
    )
    write_key(files.key, key)
    pem = [certificate.public_bytes(serialization.Encoding.PEM) for certificate in [leaf, *intermediates]]
    files.chain.write_bytes(b"".join(pem))
    return files


def _new_key(kind: KeyKind) -> _PrivateKey:
    if kind == "rsa_2048":
        return rsa.generate_private_key(public_exponent=65537, key_size=2048)
    return ec.generate_private_key(ec.SECP256R1())


def _authority(
    common_name: str,
    key: _PrivateKey,
    issuer: x509.Name,
    issuer_key: _PrivateKey,
) -> x509.Certificate:
    return (
        _builder(_name_of(common_name), issuer, key, AUTHORITY_DAYS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
        .sign(issuer_key, hashes.SHA256())
    )


def _leaf(
    names: Sequence[str],
    key: _PrivateKey,
    issuer: x509.Name,
    issuer_key: _PrivateKey,
    days: int,
) -> x509.Certificate:
    return (
        _builder(_name_of(names[0]), issuer, key, days)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
        .sign(issuer_key, hashes.SHA256())
    )


def _name_of(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


def _general_name(name: str) -> x509.GeneralName:
    """Return an address as an IP address name, everything else as a DNS name."""
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _der_bytes(certificate: x509.Certificate) -> int:
    return len(certificate.public_bytes(serialization.Encoding.DER))


def _padding_name(number: int) -> str:
    return f"{number:03}.padding.firstflight.test"


def write_key(path: Path, key: _PrivateKey) -> None:
    """Write a private key as PEM. Only the owner may read the file."""
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(pem)


def _builder(subject: x509.Name, issuer: x509.Name, key: _PrivateKey, days: int) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=2))
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
