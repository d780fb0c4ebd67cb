"""The certificates that the lab's servers send, read from the state folder."""

from __future__ import annotations

import json
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding

from lab.declared.model import CertificateName
from lab.hosts.servers import chain_file


class LabChains:
    """The certificates for a lab's servers; they exist after the lab was started once."""

    def __init__(self, state: Path | None) -> None:
        self._state = state
        self._read: dict[tuple[str, str], list[x509.Certificate]] = {}

    def of(self, stack: str, certificate: CertificateName) -> list[x509.Certificate]:
        """Return a chain, leaf first; empty if the lab has not written it."""
        key = (stack, certificate)
        if key not in self._read:
            file = self._state and chain_file(self._state, stack, certificate)
            pem = file.read_bytes() if file and file.is_file() else b""
            self._read[key] = x509.load_pem_x509_certificates(pem) if pem else []
        return self._read[key]


class Described:
    """A certificate with its values in records."""

    def __init__(self, certificate: x509.Certificate) -> None:
        self._certificate = certificate
        self._der = certificate.public_bytes(Encoding.DER)

    @cached_property
    def sha256(self) -> str:
        """Return its SHA-256 (hex)."""
        return sha256(self._der).hexdigest()

    @property
    def columns(self) -> dict[str, Any]:
        """Return columns of certificate, without the place in a chain."""
        certificate = self._certificate
        key = certificate.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey) and key.curve.name == "secp256r1"
        serial = certificate.serial_number
        return {
            "sha256": self.sha256,
            "subject": certificate.subject.rfc4514_string(),
            "issuer": certificate.issuer.rfc4514_string(),
            "sans": json.dumps(self._names(), separators=(",", ":")),
            "serial": serial.to_bytes(serial.bit_length() // 8 + 1, "big").hex(),  # as in DER
            "key_algorithm": "ec_p256",
            "key_bits": 256,
            "signature_algorithm": "ecdsa_sha256",
            "is_ca": certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca,
            "scts": 0,
            "der_bytes": len(self._der),
            "not_before": int(certificate.not_valid_before_utc.timestamp()) * 10**9,
            "not_after": int(certificate.not_valid_after_utc.timestamp()) * 10**9,
            "error": None,
        }

    def _names(self) -> list[str]:
        try:
            extension = self._certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
        except x509.ExtensionNotFound:
            return []
        return extension.value.get_values_for_type(x509.DNSName)
