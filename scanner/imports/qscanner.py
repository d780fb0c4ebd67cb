"""Converts the output of QScanner (github.com/tumi8/QScanner) to our record kinds of handshakes.

QScanner writes a target's results to several CSV files at the same time, under a lock. So all files have
the targets in the same order, and targets without a connection error are in all files. This module reads the
files in parallel, target by target. Values that QScanner does not provide are null.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from firstflight.cdn import edge
from firstflight.cdn.methods import Methods
from firstflight.errors import InputError
from scanner.imports import failures, transport_parameters
from scanner.imports.chains import ImportedChains
from scanner.imports.table import PartialTable, TableLine, read

CONNECTIONS, PARAMETERS = "quic_connection_info.csv", "quic_shared_config.csv"
TLS, CERTIFICATES, HEADERS = "tls_shared_config.csv", "tls_certificates.csv", "http_header.csv"
# TLS 1.3 ciphers (RFC 8446 B.4) and groups (RFC 8446 4.2.7 and draft-ietf-tls-ecdhe-mlkem), with the
# engine's names.
CIPHERS = {
    "1301": "TLS_AES_128_GCM_SHA256",
    "1302": "TLS_AES_256_GCM_SHA384",
    "1303": "TLS_CHACHA20_POLY1305_SHA256",
}
GROUPS = {"23": "secp256r1", "24": "secp384r1", "25": "secp521r1", "29": "X25519", "4588": "X25519MLKEM768"}
_DIGITS = 15  # maximum length of a number
ALPN, QUIC_TRANSPORT_PARAMETERS = 16, 57
# Response fields with a column.
FIELDS = ("server", "alt-svc", "via", "location", "cf-ray", "x-amz-cf-pop", "x-cache", "x-served-by", "age")

RecordRow = dict[str, Any]
"""Some or all columns of a row in a record file."""


@dataclass
class TargetRows:
    """A target's rows. `certificates` are the certificates that no earlier target sent."""

    handshake: RecordRow
    response: RecordRow | None = None
    certificates: list[RecordRow] = field(default_factory=list)


class LineRejected(Exception):
    """The reason why a line is not used."""


class QScanner:
    """A QScanner run's output, in `folder`. `rejected`: (line, reason) of connections.

    `methods`: the rules that identify a CDN by headers and certificates.
    """

    def __init__(self, folder: Path, methods: Methods) -> None:
        self.folder = folder
        self._methods = methods
        self.rejected: list[tuple[int, str]] = []

    def run_id(self) -> str:
        """Return an id for the imported run, from the start and results. InputError without a row."""
        path = self.folder / CONNECTIONS
        digest = sha256()
        first: int | None = None
        for line in read(path):
            digest.update(repr(sorted(line.values.items())).encode())
            started = line.values.get("startTime") or ""
            if started.isdecimal() and len(started) <= _DIGITS and 0 < int(started) < 1 << 33:
                first = min(int(started), first or int(started))
        if first is None:
            raise InputError(f"{path} has no connection with a startTime")
        return f"{datetime.fromtimestamp(first, UTC):%Y%m%dT%H%M%SZ}-{digest.hexdigest()[:6]}"

    def targets(self, scratch: Path) -> Iterator[TargetRows]:
        """Yield all targets. Raise InputError for a file that cannot be read or belongs to another run.

        `scratch`: a folder for a temporary copy of the certificates.
        """
        with ImportedChains(self.folder / CERTIFICATES, scratch, self._methods) as chains:
            tls, headers = PartialTable(self.folder / TLS), PartialTable(self.folder / HEADERS)
            for line in read(self.folder / CONNECTIONS):
                tls_line, fields = tls.row_of(line.key), headers.rows_of(line.key, "Header")
                try:
                    yield _target(line, tls_line, fields, chains, self._methods)
                except LineRejected as why:
                    self.rejected.append((line.number, str(why)))
            for file in (tls, headers):
                file.check_end(CONNECTIONS)


def _target(
    line: TableLine, tls: TableLine | None, fields: list[TableLine], chains: ImportedChains, methods: Methods
) -> TargetRows:
    values = line.values
    row: RecordRow = {
        "domain": values.get("hostname") or "",
        "ip": _address(values.get("address") or ""),
        "port": _integer(values, "port", 65_535),
        "sent_at": _integer(values, "startTime", 1 << 33) * 10**9,
    }
    failed = values.get("errorMessage") or ""
    row |= failures.of(failed)
    if failed:
        return TargetRows(row)
    row |= {
        "outcome": "done",
        "stage": "response" if fields else "handshake",
        "retry": {"true": True, "false": False}.get(values.get("hasRetry") or ""),
        "version": f"0x{_hex(values.get('quicVersion') or ''):08x}",
        "handshake_us": _integer(values, "handshakeDuration", 1 << 40) * 1000,
    }
    certificates = []
    if tls is not None:
        row |= _negotiated(tls.values)
        hashes = (tls.values.get("certificateHashes") or "").split()
        row |= chains.columns(hashes)
        certificates = chains.new(hashes)
    response = None
    if fields:
        header_values = {
            field.values["Header"].lower(): _braces(field.values.get("Value") or "") for field in fields
        }
        row |= {
            "http": "response",
            "server_header": header_values.get("server"),
            "edge_location": edge.location(header_values.items()),
            "cdn_by_header": methods.by_headers(header_values.items()),
        }
        response = {name: row[name] for name in ("domain", "ip", "port", "sent_at")} | {
            "headers": json.dumps(list(header_values.items()), ensure_ascii=False, separators=(",", ":")),
            **{name.replace("-", "_"): header_values.get(name) for name in FIELDS},
        }
    return TargetRows(row, response, certificates)


def _negotiated(tls: dict[str, str]) -> RecordRow:
    """Return the columns from the TLS messages."""
    row: RecordRow = {
        "cipher": CIPHERS.get(tls.get("ciphersuite") or ""),
        "group": GROUPS.get(tls.get("keyShareGroup") or ""),
        "hello_retry": bool(tls.get("helloRetryRequestExtensions")),
    }
    if tls.get("validCert") == "true":  # otherwise, the chain or the name may be the reason
        row |= {"verified": True, "name_matches": True}
    extensions = _extensions(tls.get("serverEncryptedExtensions") or "[]")
    alpn = extensions.get(ALPN, b"")
    if len(alpn) > 3:  # RFC 7301 3.1: a list with one name
        row["alpn"] = alpn[3:].decode("ascii", "replace")
    if QUIC_TRANSPORT_PARAMETERS in extensions:
        try:
            parameters = transport_parameters.parsed(extensions[QUIC_TRANSPORT_PARAMETERS])
        except ValueError as error:
            raise LineRejected(str(error)) from error
        row |= _of_parameters(parameters)
    return row


def _of_parameters(parameters: list[tuple[int, bytes]]) -> RecordRow:
    present = {number for number, _ in parameters}
    delays = [number for number in transport_parameters.MIN_ACK_DELAY if number in present]
    return {
        "transport_parameters": transport_parameters.as_json(parameters),
        "migration_disabled": 0x0C in present,
        "preferred_address": 0x0D in present,
        "max_datagram_frame_size": transport_parameters.integer(parameters, 0x20),
        "min_ack_delay_id": f"{delays[0]:#x}" if delays else None,
        "min_ack_delay_us": transport_parameters.integer(parameters, delays[0]) if delays else None,
    }


def _extensions(text: str) -> dict[int, bytes]:
    """Return TLS extensions from a JSON list of [type, base64 without padding]."""
    try:
        pairs = json.loads(text)
        return {
            int(kind): base64.b64decode(data + "=" * (-len(data) % 4), validate=True) for kind, data in pairs
        }
    except (ValueError, TypeError, binascii.Error, RecursionError) as error:
        raise LineRejected("serverEncryptedExtensions cannot be read") from error


def _address(text: str) -> str:
    try:
        ipaddress.ip_address(text)
    except ValueError as error:
        raise LineRejected(f"{text[:60]!r} is not an address") from error
    return text


def _integer(values: dict[str, str], name: str, maximum: int) -> int:
    text = values.get(name) or ""
    if not text.isdecimal() or len(text) > _DIGITS or int(text) > maximum:
        raise LineRejected(f"{name} is {text[:60]!r}")
    return int(text)


def _hex(text: str) -> int:
    if not re.fullmatch(r"[0-9a-fA-F]{1,8}", text):
        raise LineRejected(f"quicVersion is {text[:60]!r}")
    return int(text, 16)


def _braces(text: str) -> str:
    """Return a field's value. QScanner encloses all values for a name in one pair of braces."""
    return text[1:-1] if text.startswith("{") and text.endswith("}") else text
