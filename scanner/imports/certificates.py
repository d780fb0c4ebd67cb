"""Converts a certificate (DER) to the columns of record kind `certificate`, with the engine's terms."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed448, ed25519, rsa
from cryptography.x509.oid import ExtensionOID

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_CURVES = {
    "secp256r1": "ec_p256",
    "secp384r1": "ec_p384",
    "secp521r1": "ec_p521",
    "secp256k1": "ec_secp256k1",
}
_SIGNATURES = {
    "1.2.840.113549.1.1.4": "rsa_md5",
    "1.2.840.113549.1.1.5": "rsa_sha1",
    "1.2.840.113549.1.1.11": "rsa_sha256",
    "1.2.840.113549.1.1.12": "rsa_sha384",
    "1.2.840.113549.1.1.13": "rsa_sha512",
    "1.2.840.113549.1.1.10": "rsa_pss",
    "1.2.840.10045.4.1": "ecdsa_sha1",
    "1.2.840.10045.4.3.2": "ecdsa_sha256",
    "1.2.840.10045.4.3.3": "ecdsa_sha384",
    "1.2.840.10045.4.3.4": "ecdsa_sha512",
    "1.3.101.112": "ed25519",
}


# A validity: two times of either type (RFC 5280 4.1.2.5). Only their lengths are checked.
_TIME = rb"\x17\x0d.{13}|\x18\x0f.{15}"
_VALIDITY = re.compile(
    rb"\x30[\x1e\x20\x22](?P<not_before>" + _TIME + rb")(?P<not_after>" + _TIME + rb")", re.DOTALL
)
_SOME_TIME = {0x17: b"\x17\x0d300101000000Z", 0x18: b"\x18\x0f20500101000000Z"}


def describe(der: bytes) -> dict[str, Any]:
    """Return a certificate's fields. An unreadable field is empty or `None`, and `error` names it.

    If the parser rejects the whole certificate, return only the hash, size and `error`.
    """
    row: dict[str, Any] = {"sha256": sha256(der).hexdigest(), "der_bytes": len(der), **_UNKNOWN}
    try:
        certificate, undated = _loaded(der)
    except Exception:  # untrusted data: the parser has no common class of errors
        return row | {"error": "certificate does not parse"}
    faults = [f"{field} is no date" for field in undated]
    for part, columns in _READERS.items():
        if part in undated:
            continue
        try:
            row |= columns(certificate)
        except Exception:  # as above
            faults.append(f"{part} does not parse")
    return row | {"error": "; ".join(faults) or None}


def _loaded(der: bytes) -> tuple[x509.Certificate, tuple[str, ...]]:
    """Return the certificate, and the names of the invalid times.

    The parser rejects a certificate with an invalid time, so this function replaces that time.
    """
    try:
        return x509.load_der_x509_certificate(der), ()
    except Exception as error:  # as above
        times = _VALIDITY.search(der)
        if times is None:
            raise
        for undated in (("not_before",), ("not_after",), ("not_before", "not_after")):
            patched = der
            for field in undated:
                start, end = times.span(field)
                patched = patched[:start] + _SOME_TIME[der[start]] + patched[end:]
            with suppress(Exception):
                return x509.load_der_x509_certificate(patched), undated
        raise ValueError("its times are not the only fault") from error


def _serial(certificate: x509.Certificate) -> dict[str, Any]:
    """Encode like DER: a leading zero byte if the first bit would be set."""
    serial = certificate.serial_number
    return {"serial": serial.to_bytes(serial.bit_length() // 8 + 1, "big").hex()}


def _signature(certificate: x509.Certificate) -> dict[str, Any]:
    oid = certificate.signature_algorithm_oid.dotted_string
    return {"signature_algorithm": _SIGNATURES.get(oid, oid)}


def _sans(certificate: x509.Certificate) -> dict[str, Any]:
    return {"sans": json.dumps(_names(certificate), ensure_ascii=False, separators=(",", ":"))}


def _key(certificate: x509.Certificate) -> tuple[str, int | None]:
    key = certificate.public_key()
    if isinstance(key, ec.EllipticCurvePublicKey):
        return _CURVES.get(key.curve.name, key.curve.name), key.curve.key_size
    if isinstance(key, rsa.RSAPublicKey):
        return "rsa", key.key_size
    if isinstance(key, ed25519.Ed25519PublicKey):
        return "ed25519", 256
    if isinstance(key, ed448.Ed448PublicKey):
        return "ed448", 456
    if isinstance(key, dsa.DSAPublicKey):
        return "dsa", None
    return certificate.public_key_algorithm_oid.dotted_string, None


def _names(certificate: x509.Certificate) -> list[str]:
    """Return DNS names and addresses unchanged, other names prefixed with their type."""
    try:
        sans = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return []
    plain_types = (x509.DNSName, x509.IPAddress)
    return [
        str(name.value) if isinstance(name, plain_types) else f"{type(name).__name__}:{name.value}"
        for name in sans
    ]


def _is_ca(certificate: x509.Certificate) -> bool:
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except x509.ExtensionNotFound:
        return False


def _timestamps(certificate: x509.Certificate) -> int:
    oid = ExtensionOID.PRECERT_SIGNED_CERTIFICATE_TIMESTAMPS
    try:
        extension = certificate.extensions.get_extension_for_oid(oid).value
    except x509.ExtensionNotFound:
        return 0
    return (
        len(list(extension)) if isinstance(extension, x509.PrecertificateSignedCertificateTimestamps) else 0
    )


def _ns(moment: datetime) -> int | None:
    """Return nanoseconds since 1970; `None` outside of the years 1678 to 2261."""
    passed = moment - _EPOCH
    ns = (passed.days * 86_400 + passed.seconds) * 10**9
    return ns if -(2**63) <= ns < 2**63 else None


_UNKNOWN: dict[str, Any] = {
    "sans": "[]",
    "is_ca": False,
    **dict.fromkeys(("subject", "issuer", "serial", "key_algorithm", "signature_algorithm"), ""),
    **dict.fromkeys(("key_bits", "scts", "not_before", "not_after", "error")),
}
_READERS: dict[str, Callable[[x509.Certificate], dict[str, Any]]] = {
    "issuer": lambda certificate: {"issuer": certificate.issuer.rfc4514_string()},
    "subject": lambda certificate: {"subject": certificate.subject.rfc4514_string()},
    "serial number": _serial,
    "public key": lambda certificate: dict(
        zip(("key_algorithm", "key_bits"), _key(certificate), strict=True)
    ),
    "signature algorithm": _signature,
    "not_before": lambda certificate: {"not_before": _ns(certificate.not_valid_before_utc)},
    "not_after": lambda certificate: {"not_after": _ns(certificate.not_valid_after_utc)},
    "subject alternative name": _sans,
    "basic constraint": lambda certificate: {"is_ca": _is_ca(certificate)},
    "list of signed certificate timestamps": lambda certificate: {"scts": _timestamps(certificate)},
}
