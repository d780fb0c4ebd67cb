"""The certificates of a QScanner run by their hash, on disk instead of in memory."""

from __future__ import annotations

import base64
import json
import sqlite3
import tempfile
from collections.abc import Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from firstflight.as_map import OTHERS
from firstflight.cdn.methods import Methods
from firstflight.errors import InputError
from scanner.imports import certificates
from scanner.imports.table import read

_LINES = ("-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----")


class Chains:
    """Reads tls_certificates.csv; a context manager, which removes its copy at the end."""

    def __init__(self, path: Path, scratch: Path, methods: Methods) -> None:
        """Read all certificates, into a file in `scratch`. InputError for one that is not its hash's.

        `methods`: the rules by which the first of a chain tells a CDN.
        """
        self._methods = methods
        self._folder = tempfile.TemporaryDirectory(dir=scratch, prefix="certificates-")
        self._store = sqlite3.connect(Path(self._folder.name) / "certificates")
        self._store.execute("PRAGMA journal_mode = OFF")
        self._store.execute("CREATE TABLE certificate (hash TEXT PRIMARY KEY, der BLOB, had INTEGER)")
        for line in read(path) if path.exists() else ():
            der = _der(line.values.get("cert", ""))
            if der is None or sha256(der).hexdigest() != line.values.get("hash"):
                raise InputError(f"{path}: the certificate that ends in line {line.number} is not its hash's")
            row = (line.values["hash"], der)
            self._store.execute("INSERT OR IGNORE INTO certificate VALUES (?, ?, 0)", row)
        self._columns = lru_cache(4096)(self._columns_of)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._store.close()
        self._folder.cleanup()

    def columns(self, hashes: Sequence[str]) -> dict[str, Any]:
        """Return the columns of quic_handshake about a chain; chain_sha256 only if all of it is known."""
        return dict(self._columns(tuple(hashes)))

    def new(self, hashes: Sequence[str]) -> list[dict[str, Any]]:
        """Return the rows of those certificates of a chain that were not returned before."""
        rows = []
        for position, digest in enumerate(hashes[:256]):
            der = self._take(digest)
            if der is not None:
                following = hashes[position + 1] if position + 1 < len(hashes) else None
                rows.append(certificates.describe(der) | {"position": position, "issuer_sha256": following})
        return rows

    def _take(self, digest: str) -> bytes | None:
        found = self._store.execute(
            "SELECT der FROM certificate WHERE hash = ? AND NOT had", (digest,)
        ).fetchone()
        if found is None:
            return None
        self._store.execute("UPDATE certificate SET had = 1 WHERE hash = ?", (digest,))
        return bytes(found[0])

    def _columns_of(self, hashes: tuple[str, ...]) -> dict[str, Any]:
        if not hashes:
            return {}
        whole = sha256()
        known = True
        for digest in hashes:
            found = self._store.execute("SELECT der FROM certificate WHERE hash = ?", (digest,)).fetchone()
            known = known and found is not None
            whole.update(found[0] if found is not None else b"")
        return {
            "leaf_sha256": hashes[0],
            "chain_length": min(len(hashes), 255),
            "chain_sha256": whole.hexdigest() if known else None,
            "cdn_by_certificate": self._cdn(hashes[0]),
        }

    def _cdn(self, digest: str) -> str | None:
        """Return the CDN by a certificate; None if it is not known or cannot be parsed."""
        found = self._store.execute("SELECT der FROM certificate WHERE hash = ?", (digest,)).fetchone()
        if found is None:
            return None
        row = certificates.describe(bytes(found[0]))
        cdn = self._methods.by_certificate(row["subject"], row["issuer"], json.loads(row["sans"]))
        return None if cdn == OTHERS and row["error"] is not None else cdn


def _der(pem: str) -> bytes | None:
    """Return the bytes of a certificate in PEM; None if it is none."""
    text = pem.strip()
    if not (text.startswith(_LINES[0]) and text.endswith(_LINES[1])):
        return None
    try:
        return base64.b64decode("".join(text[len(_LINES[0]) : -len(_LINES[1])].split()), validate=True)
    except ValueError:
        return None
