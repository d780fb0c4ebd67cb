"""The root certificates with which a crawl verifies servers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import certifi
from cryptography import x509
from OpenSSL import crypto
from twisted.internet import ssl

from firstflight.errors import InputError


def roots(path: Path | None) -> Any:
    """Return a PEM file's certificates, or Mozilla's, as Twisted's trust root. InputError without any."""
    source = path or Path(certifi.where())
    try:
        certificates = x509.load_pem_x509_certificates(source.read_bytes())
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"cannot read certificates from {source}: {reason}; nothing was sent") from error
    return ssl.trustRootFromCertificates(
        [ssl.Certificate(crypto.X509.from_cryptography(certificate)) for certificate in certificates]
    )
