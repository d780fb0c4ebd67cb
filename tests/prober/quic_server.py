"""A real QUIC server (aioquic) on two ports of 127.0.0.1 and ::1: `python quic_server.py PORT RETRY_PORT`.

On the second port, it sends a Retry first.
"""

from __future__ import annotations

import asyncio
import datetime
import sys
import tempfile
from pathlib import Path

from aioquic.asyncio.server import serve
from aioquic.quic.configuration import QuicConfiguration
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def configuration() -> QuicConfiguration:
    """Return a configuration for HTTP/3 with a new self-signed certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "prober.test")])
    now = datetime.datetime.now(datetime.UTC)
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    builder = builder.serial_number(1).not_valid_before(now).not_valid_after(now + datetime.timedelta(days=1))
    settings = QuicConfiguration(is_client=False, alpn_protocols=["h3"])
    with tempfile.TemporaryDirectory() as folder:
        chain, secret = Path(folder) / "cert.pem", Path(folder) / "key.pem"
        chain.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
        plain = serialization.NoEncryption()
        pkcs8 = serialization.PrivateFormat.PKCS8
        secret.write_bytes(key.private_bytes(serialization.Encoding.PEM, pkcs8, plain))
        settings.load_cert_chain(chain, secret)
    return settings


async def main(plain: int, retry: int) -> None:
    """Serve until killed; print READY."""
    settings = configuration()
    for address in ("127.0.0.1", "::1"):
        await serve(address, plain, configuration=settings)
        await serve(address, retry, configuration=settings, retry=True)
    print("READY", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*map(int, sys.argv[1:])))
