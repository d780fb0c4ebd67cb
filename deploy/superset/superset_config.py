"""Settings of Superset, which reads them in its own environment (SUPERSET_CONFIG_PATH).

FIRSTFLIGHT_SUPERSET names the folder of this installation: Superset's own database, and the files that
deploy/superset/start.py writes, `secret_key` and `store_url`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from sqlalchemy.engine import URL, make_url

_FOLDER = Path(os.environ["FIRSTFLIGHT_SUPERSET"])
_STORE = "store.invalid"

SECRET_KEY = (_FOLDER / "secret_key").read_text(encoding="utf-8").strip()
SQLALCHEMY_DATABASE_URI = f"sqlite:///{_FOLDER / 'superset.db'}?check_same_thread=false"

# The browser may contact no other host. This includes the pixel that counts installations.
TALISMAN_ENABLED = True
TALISMAN_CONFIG = {
    "content_security_policy": {
        "base-uri": ["'self'"],
        "default-src": ["'self'"],
        "img-src": ["'self'", "blob:", "data:"],
        "worker-src": ["'self'", "blob:"],
        "connect-src": ["'self'"],
        "object-src": "'none'",
        "style-src": ["'self'", "'unsafe-inline'"],
        "font-src": ["'self'"],
        "script-src": ["'self'", "'strict-dynamic'"],
        "frame-ancestors": ["'self'"],
    },
    "content_security_policy_nonce_in": ["script-src"],
    # TLS is the task of the proxy, if there is one: Superset itself is on loopback.
    "force_https": False,
    "session_cookie_secure": False,
}
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
PUBLIC_ROLE_LIKE = None
AUTH_USER_REGISTRATION = False
RATELIMIT_ENABLED = True
RATELIMIT_STORAGE_URI = "memory://"

# As for the analysts of a ClickHouse server (deploy/clickhouse), with the time that a browser waits.
ROW_LIMIT = 10_000
SQL_MAX_ROW = 100_000
SUPERSET_WEBSERVER_TIMEOUT = 120
SQLLAB_TIMEOUT = 120


def DB_CONNECTION_MUTATOR(
    uri: URL, params: dict[str, Any], _username: str, _security_manager: Any, _source: Any
) -> tuple[URL, dict[str, Any]]:
    """Replace the placeholder by the store's address, which is in a file and not in Superset's database."""
    if uri.host != _STORE:
        return uri, params
    store = make_url((_FOLDER / "store_url").read_text(encoding="utf-8").strip())
    return store.set(drivername=uri.drivername, query={**uri.query, **store.query}), params
