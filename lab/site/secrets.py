"""A site's secrets: generated once, stored in files that only their owner can read, never logged."""

from __future__ import annotations

import base64
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

PASSWORD_CHARACTERS = 20


@dataclass(frozen=True)
class Secrets:
    """Files of mode 0600 in a folder of mode 0700."""

    folder: Path

    @property
    def jwt(self) -> Path:
        """[api_auth] jwt_secret: signs the requests of workers (docs/site/workers-secret.md)."""
        return self.folder / "jwt_secret"

    @property
    def signing_key(self) -> Path:
        """[api_auth] jwt_private_key_path: signs the tokens of tasks and the logins to the page."""
        return self.folder / "jwt_private_key"

    @property
    def fernet(self) -> Path:
        """[core] fernet_key: encrypts connections and variables in Airflow's database."""
        return self.folder / "fernet_key"

    @property
    def session(self) -> Path:
        """[api] secret_key."""
        return self.folder / "api_secret_key"

    @property
    def passwords(self) -> Path:
        """Passwords of the page's users; Airflow's SimpleAuthManager reads the file."""
        return self.folder / "passwords.json"

    @property
    def store_password(self) -> Path:
        """Password of the store's user `firstflight`."""
        return self.folder / "store_password"

    @property
    def store_url(self) -> Path:
        """FIRSTFLIGHT_STORE_FILE: the store's address with the password."""
        return self.folder / "store_url"

    def admin_password(self) -> str:
        """Return the password of user admin."""
        password = json.loads(self.passwords.read_text(encoding="utf-8"))["admin"]
        assert isinstance(password, str)
        return password


def generate(folder: Path, store: str) -> Secrets:
    """Generate missing secrets. `store`: the store's URL, with {password} for the password."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder.chmod(0o700)
    secret_files = Secrets(folder)
    # 64 bytes, the key length of HS512, which Airflow uses for signatures. One line, as on machines
    # (deploy/ansible).
    _keep(secret_files.jwt, base64.urlsafe_b64encode(secrets.token_bytes(64)).decode() + "\n")
    _keep(secret_files.signing_key, _private_key())
    _keep(secret_files.fernet, base64.urlsafe_b64encode(secrets.token_bytes(32)).decode())
    _keep(secret_files.session, secrets.token_hex(32))
    _keep(secret_files.passwords, json.dumps({"admin": secrets.token_urlsafe(PASSWORD_CHARACTERS)}) + "\n")
    _keep(secret_files.store_password, secrets.token_urlsafe(24))
    _keep(
        secret_files.store_url,
        store.format(password=secret_files.store_password.read_text(encoding="utf-8")),
        replace=True,
    )
    return secret_files


def _private_key() -> str:
    """Return a new key (Ed25519) as PEM."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ed25519

    pem = ed25519.Ed25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return pem.decode()


def _keep(path: Path, text: str, *, replace: bool = False) -> None:
    if replace:
        path.unlink(missing_ok=True)
    if not path.exists():
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
