"""The certificates from a QScanner run by hash, on disk instead of in memory."""

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


class ImportedChains:
    """Reads tls_certificates.csv. A context manager that removes the copy at the end."""

    def __init__(self, path: Path, scratch: Path, methods: Methods) -> None:
        """Read all certificates to a file in `scratch`. InputError if a certificate does not match the hash.

        `methods`: the rules that identify a CDN by a chain's first certificate.
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
        """Return the columns of quic_handshake for a chain. chain_sha256 requires all certificates."""
        return dict(self._columns(tuple(hashes)))

    def new(self, hashes: Sequence[str]) -> list[dict[str, Any]]:
        """Return the rows for a chain's certificates that earlier calls did not return."""
        rows = []
        for position, digest in enumerate(hashes[:256]):
            der = self._take(digest)
            if der is not None:
                issuer = hashes[position + 1] if position + 1 < len(hashes) else None
                rows.append(certificates.describe(der) | {"position": position, "issuer_sha256": issuer})
        return rows

    def _take(self, digest: str) -> bytes | None:
        row = self._store.execute(
            "SELECT der FROM certificate WHERE hash = ? AND NOT had", (digest,)
        ).fetchone()
        if row is None:
            return None
        self._store.execute("UPDATE certificate SET had = 1 WHERE hash = ?", (digest,))
        return bytes(row[0])

    def _columns_of(self, hashes: tuple[str, ...]) -> dict[str, Any]:
        if not hashes:
            return {}
        chain_hash = sha256()
        is_complete = True
        for digest in hashes:
            row = self._store.execute("SELECT der FROM certificate WHERE hash = ?", (digest,)).fetchone()
            is_complete = is_complete and row is not None
            chain_hash.update(row[0] if row is not None else b"")
        return {
            "leaf_sha256": hashes[0],
            "chain_length": min(len(hashes), 255),
            "chain_sha256": chain_hash.hexdigest() if is_complete else None,
            "cdn_by_certificate": self._cdn(hashes[0]),
        }

    def _cdn(self, digest: str) -> str | None:
        """Return a certificate's CDN; `None` if the certificate is missing or cannot be parsed."""
        stored = self._store.execute("SELECT der FROM certificate WHERE hash = ?", (digest,)).fetchone()
        if stored is None:
            return None
        row = certificates.describe(bytes(stored[0]))
        cdn = self._methods.by_certificate(row["subject"], row["issuer"], json.loads(row["sans"]))
        return None if cdn == OTHERS and row["error"] is not None else cdn


def _der(pem: str) -> bytes | None:
    """Return a PEM certificate's bytes; `None` for other text."""
    text = pem.strip()
    if not (text.startswith(_LINES[0]) and text.endswith(_LINES[1])):
        return None
    try:
        return base64.b64decode("".join(text[len(_LINES[0]) : -len(_LINES[1])].split()), validate=True)
    except ValueError:
        return None
