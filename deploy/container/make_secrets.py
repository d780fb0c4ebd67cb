"""Writes the secrets of a site in containers to a folder, once: passwords, keys, and the store's certificate.

    python make_secrets.py FOLDER DASHBOARD

It copies the dashboard's secrets to the folder DASHBOARD. Existing files stay unchanged. The certificate is
self-signed, for the names `store` and `localhost`.
"""

from __future__ import annotations

import secrets
import sys
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from firstflight.system import files

VALID_DAYS = 825
CHAIN, KEY = "store.pem", "store.key"


def write(folder: Path, name: str, text: str) -> str:
    """Write a file that only its owner can read, unless it exists; return the file's content."""
    path = folder / name
    if not path.exists():
        files.write_secret(path, text)
    return path.read_text(encoding="utf-8")


def pem(key: ec.EllipticCurvePrivateKey | ed25519.Ed25519PrivateKey) -> str:
    """Return a private key as PEM."""
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()


def certificate() -> tuple[str, str]:
    """Return a self-signed certificate of the store and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "store")])
    names: list[x509.GeneralName] = [x509.DNSName("store"), x509.DNSName("localhost")]
    now = datetime.now(UTC)
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(days=VALID_DAYS))
        .add_extension(x509.SubjectAlternativeName([*names, x509.IPAddress(ip_address("127.0.0.1"))]), False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), True)
        .sign(key, hashes.SHA256())
    )
    return signed.public_bytes(serialization.Encoding.PEM).decode(), pem(key)


def make(folder: Path) -> None:
    """Write all secrets that `folder` lacks."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("jwt_secret", "api_secret_key"):
        write(folder, name, secrets.token_urlsafe(64))
    write(folder, "jwt_private_key", pem(ed25519.Ed25519PrivateKey.generate()))
    write(folder, "fernet_key", Fernet.generate_key().decode())
    database = write(folder, "database_password", secrets.token_urlsafe(32))
    write(folder, "airflow_db", f"postgresql+psycopg2://firstflight:{database}@database/airflow")
    passwords = {
        "firstflight": write(folder, "store_password", secrets.token_urlsafe(32)),
        "vantage": write(folder, "store_loader_password", secrets.token_urlsafe(32)),
    }
    if not (folder / CHAIN).exists():
        chain, key = certificate()
        (folder / KEY).unlink(missing_ok=True)  # left if an earlier start ended before CHAIN was written
        write(folder, KEY, key)
        write(folder, CHAIN, chain)
    # The worker is in the machine's network, where the store's name is not known.
    for name, user, host in (
        ("store_url", "firstflight", "store"),
        ("store_url_worker", "vantage", "localhost"),
    ):
        options = f"secure=1&ca_certs={folder / CHAIN}"
        write(folder, name, f"clickhouse://{user}:{passwords[user]}@{host}:9440/firstflight?{options}")


def make_for_dashboard(folder: Path, dashboard: Path) -> None:
    """Copy the dashboard's secrets. In its container, the copy is at the path of `folder`."""
    dashboard.mkdir(parents=True, exist_ok=True)
    for name in ("store_url", CHAIN):
        write(dashboard, name, (folder / name).read_text(encoding="utf-8"))


if __name__ == "__main__":
    everything, for_dashboard = (Path(word).absolute() for word in sys.argv[1:])
    make(everything)
    make_for_dashboard(everything, for_dashboard)
