"""Import of QScanner's output: its values arrive, missing values are null, and no row appears twice."""

from __future__ import annotations

import base64
import csv
import json
import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from firstflight.cdn import rules
from firstflight.cdn.methods import Methods
from firstflight.errors import InputError
from firstflight.run.provenance import ruleset_hash
from scanner.imports import certificates, failures, transport_parameters
from scanner.imports.qscanner import QScanner, TargetRows
from schemas import records

FIXTURE = Path(__file__).parents[2] / "fixtures" / "qscanner"
FIRSTFLIGHT = [sys.executable, "-P", "-m", "cli"]
METHODS = Methods.read(rules.DEFAULT)
TARGETS, ANSWERED = 12, 10  # of the fixture, the first lines of each file
CERTIFICATE = "e3f5ead40a0861497bef546307fd78c22b273413bb36eece1bd55036e0cfa22b"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FIXTURE, tmp_path / "qscanner"))


def found(folder: Path) -> tuple[list[TargetRows], QScanner]:
    source = QScanner(folder, METHODS)
    return list(source.targets(folder)), source


def change(path: Path, line: int, **values: str) -> None:
    """Change columns in a row in a CSV file; line 0 is the first row after the header."""
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    rows[line] |= values
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def test_every_column_that_qscanner_knows(folder: Path) -> None:
    targets, source = found(folder)
    assert source.rejected == [] and len(targets) == TARGETS
    first = targets[0].handshake
    parameters = json.loads(first.pop("transport_parameters"))
    assert first == {
        "domain": "d126.lab",
        "ip": "127.0.0.127",
        "port": 4443,
        "sent_at": 1_795_152_818 * 10**9,
        "outcome": "done",
        "stage": "response",
        "retry": False,
        "hello_retry": False,
        "version": "0x00000001",
        "handshake_us": 32_000,
        "cipher": "TLS_AES_128_GCM_SHA256",
        "group": "X25519",
        "alpn": "h3",
        "migration_disabled": False,
        "preferred_address": False,
        "max_datagram_frame_size": None,
        "min_ack_delay_id": None,
        "min_ack_delay_us": None,
        "leaf_sha256": CERTIFICATE,
        "chain_sha256": CERTIFICATE,
        "chain_length": 1,
        "http": "response",
        "server_header": None,
        "edge_location": "HAM",
        "cdn_by_header": "Cloudflare",
        "cdn_by_certificate": "Others",
    }
    # As quic_shared_config.csv has them, and in wire order.
    values = {entry["name"]: entry["value"] for entry in parameters}
    assert (values["max_idle_timeout"], values["max_ack_delay"]) == (30_000, 26)
    assert values["initial_source_connection_id"] == "615c4889"
    assert parameters[0] == {"id": "0x18b0", "name": "grease", "value": "107b7a79bfc55f7fe8ed"}
    response = targets[0].response
    assert response is not None
    assert (response["cf_ray"], response["server"]) == ("abc-HAM", None)
    assert ["content-type", "text/plain; charset=utf-8"] in json.loads(response["headers"])
    assert [len(target.certificates) for target in targets] == [1, *[0] * (TARGETS - 1)]
    assert sum(target.response is not None for target in targets) == ANSWERED
    assert {target.handshake["stage"] for target in targets[ANSWERED:]} == {"handshake"}


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("timeout: no recent network activity", {"outcome": "timeout"}),
        ("timeout: handshake did not complete in time", {"outcome": "timeout"}),
        (
            "no compatible QUIC version found (we support [1], server offered [2])",
            {"outcome": "version_negotiation"},
        ),
        (
            "CRYPTO_ERROR 0x128 (remote): tls: handshake failure",
            {"outcome": "handshake_failed", "alert": 40, "alert_by": "server"},
        ),
        (
            "CRYPTO_ERROR (0x12a) (local): x",
            {"outcome": "handshake_failed", "alert": 42, "alert_by": "client"},
        ),
        (
            "CRYPTO_ERROR (0x178): no application protocol",
            {"outcome": "handshake_failed", "alert": 120, "alert_by": None},
        ),
        (
            "Application error 0x100 (remote): bye",
            {"outcome": "closed", "close_by_application": True, "close_code": 256, "close_reason": "bye"},
        ),
        (
            "CONNECTION_REFUSED (remote) (frame type: 0x6)",
            {"outcome": "closed", "close_by_application": False, "close_code": 2, "close_reason": None},
        ),
        ("received a stateless reset with token 00", {"outcome": "closed"}),
        ("PROTOCOL_VIOLATION (local): x", {"outcome": "malformed"}),
        ("read udp 1->2: recvfrom: connection refused", {"outcome": "refused"}),
        ("write udp [::]:1->2: sendto: network is unreachable", {"outcome": "send_failed"}),
        ("something else", {"outcome": "handshake_failed"}),
    ],
)
def test_failures_are_rows_with_the_text(folder: Path, text: str, columns: dict[str, Any]) -> None:
    assert failures.of(text) == {"detail": text, **columns}
    assert columns["outcome"] in records.load("quic_handshake").column("outcome").values
    connections = folder / "quic_connection_info.csv"
    change(connections, 0, errorMessage=text, hasRetry="", quicVersion="0")
    for name in ("tls_shared_config.csv", "http_header.csv"):  # QScanner writes nothing there
        path = folder / name
        path.write_text(
            "\n".join(line for line in path.read_text().split("\n") if not line.startswith("126,"))
        )
    targets, source = found(folder)
    assert source.rejected == []
    row = targets[0].handshake
    assert {name: row[name] for name in columns} == columns
    assert "retry" not in row and "version" not in row and "handshake_us" not in row
    assert len(targets) == TARGETS and targets[1].handshake["outcome"] == "done"


@pytest.mark.parametrize(
    ("name", "column", "value", "reason"),
    [
        ("quic_connection_info.csv", "startTime", "-1", "startTime is '-1'"),
        ("quic_connection_info.csv", "quicVersion", "v1", "quicVersion is 'v1'"),
        ("quic_connection_info.csv", "handshakeDuration", "", "handshakeDuration is ''"),
        (
            "tls_shared_config.csv",
            "serverEncryptedExtensions",
            "[[57]]",
            "serverEncryptedExtensions cannot be read",
        ),
        (
            "tls_shared_config.csv",
            "serverEncryptedExtensions",
            '[[57,"AQU"]]',
            "a transport parameter is cut",
        ),
    ],
)
def test_only_an_unreadable_line_is_rejected(
    folder: Path, name: str, column: str, value: str, reason: str
) -> None:
    change(folder / name, 3, **{column: value})
    targets, source = found(folder)
    assert source.rejected == [(5, reason)]
    assert len(targets) == TARGETS - 1


@pytest.mark.parametrize(
    ("name", "line", "values", "message"),
    [
        (
            "tls_shared_config.csv",
            3,
            {"address": "127.9.9.9"},
            "ends in line 5 belongs to a target",
        ),
        ("http_header.csv", 0, {"hostname": "x.lab"}, "ends in line 2 belongs to a target"),
        ("tls_certificates.csv", 0, {"hash": "00" * 32}, "is not its hash's"),
    ],
)
def test_files_of_different_runs_are_refused(
    folder: Path, name: str, line: int, values: dict[str, str], message: str
) -> None:
    change(folder / name, line, **values)
    with pytest.raises(InputError, match=message):
        found(folder)


def test_a_chain_is_hashed_in_its_order(folder: Path) -> None:
    path = folder / "tls_certificates.csv"
    with path.open("a") as file:
        file.write(f'2,{sha256(b"other").hexdigest()},"{pem(b"other")}"\n')
    chain = [CERTIFICATE, sha256(b"other").hexdigest()]
    change(folder / "tls_shared_config.csv", 0, certificateHashes=" ".join(chain), validCert="true")
    first, *_ = found(folder)[0]
    with path.open(newline="") as file:
        der = base64.b64decode("".join(next(csv.DictReader(file))["cert"].split("\n")[1:-1]))
    row = first.handshake
    assert row["chain_sha256"] == sha256(der + b"other").hexdigest()
    assert (row["chain_length"], row["verified"], row["name_matches"]) == (2, True, True)
    assert [(c["position"], c["issuer_sha256"], c["error"]) for c in first.certificates] == [
        (0, chain[1], None),
        (1, None, "certificate does not parse"),
    ]


def pem(der: bytes) -> str:
    return f"-----BEGIN CERTIFICATE-----\n{base64.b64encode(der).decode()}\n-----END CERTIFICATE-----"


def test_certificates_are_described(folder: Path) -> None:
    certificate = found(folder)[0][0].certificates[0]
    assert certificate == {
        "sha256": CERTIFICATE,
        "position": 0,
        "issuer_sha256": None,
        "subject": "CN=lab",
        "issuer": "CN=lab",
        "sans": '["*.lab"]',
        "serial": "01",
        "key_algorithm": "ec_p256",
        "key_bits": 256,
        "signature_algorithm": "ecdsa_sha256",
        "is_ca": False,
        "scts": 0,
        "der_bytes": 289,
        "not_before": 1_795_149_216 * 10**9,
        "not_after": 1_798_752_816 * 10**9,
        "error": None,
    }
    assert certificates.describe(b"")["error"] == "certificate does not parse"


def test_parameters_of_all_kinds() -> None:
    given = bytes.fromhex("0c00 200480010000 c0000000ff04de1b024388 0d0100 60010105 040141")
    parameters = transport_parameters.parsed(given)
    assert json.loads(transport_parameters.as_json(parameters)) == [
        {"id": "0x0c", "name": "disable_active_migration", "value": True},
        {"id": "0x20", "name": "max_datagram_frame_size", "value": 65536},
        {"id": "0xff04de1b", "name": "min_ack_delay", "value": 904},
        {"id": "0x0d", "name": "preferred_address", "value": "00"},
        {"id": "0x2001", "name": None, "value": "05"},
        {"id": "0x04", "name": "initial_max_data", "value": "41"},  # half an integer
    ]


def test_the_store_has_each_row_once(folder: Path, tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "FIRSTFLIGHT_RUNS": str(tmp_path / "runs"),
        "FIRSTFLIGHT_STORE": f"chdb:{tmp_path}/store",
    }

    def firstflight(*words: str, expect: int = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run([*FIRSTFLIGHT, *words], capture_output=True, text=True, env=environment)
        assert done.returncode == expect, done.stderr
        return done

    first = firstflight("import", "qscanner", str(folder), "--vantage", "hamburg")
    run = first.stdout.splitlines()[-1]
    assert run.startswith("20261120T053338Z-")
    elsewhere = ("import", "qscanner", str(folder), "--vantage", "hamburg", "--out", str(tmp_path / "other"))
    assert firstflight(*elsewhere).stdout == first.stdout
    counts = "SELECT (SELECT count() FROM quic_handshake WHERE http = 'response' AND run = '{0}'), "
    counts += "(SELECT count() FROM quic_handshake WHERE bytes_sent IS NULL AND vantage = 'hamburg'), "
    counts += "(SELECT count() FROM certificate), (SELECT count() FROM http3_response)"
    shown = firstflight("sql", counts.format(run), "--format", "TSV").stdout
    assert shown.split() == [str(ANSWERED), str(TARGETS), "1", str(ANSWERED)]
    rows = pq.read_table(tmp_path / "imports" / run / "quic_handshake.parquet").num_rows
    assert rows == TARGETS
    rules_file = tmp_path / "mine.toml"
    rules_file.write_text('[[rule]]\ncdn = "Mine"\nsource = "this test"\nheader = "cf-ray"\n')
    out = tmp_path / "mine"
    by_rules = (
        *("import", "qscanner", str(folder), "--vantage", "hamburg"),
        *("--cdn-rules", str(rules_file), "--out", str(out)),
    )
    assert "give --replace" in firstflight(*by_rules, expect=3).stderr
    firstflight(*by_rules, "--replace")
    imported = pq.read_table(out / "quic_handshake.parquet").to_pylist()
    assert [row["cdn_by_header"] for row in imported] == ["Mine"] * ANSWERED + [None] * (TARGETS - ANSWERED)
    assert {row["ruleset"] for row in imported} == {ruleset_hash([rules_file])}
    assert {row["cdn_by_cname"] for row in imported} == {None}
    rules_file.write_text("")
    wrong = firstflight("import", "qscanner", str(folder), "--cdn-rules", str(rules_file), expect=2)
    assert "expected tables [[rule]]" in wrong.stderr
    change(folder / "quic_connection_info.csv", 1, quicVersion="x")
    partly = firstflight("import", "qscanner", str(folder), expect=1)
    assert "line 3 rejected: quicVersion is 'x'" in partly.stderr
    missing = firstflight("import", "qscanner", str(tmp_path / "nowhere"), expect=3)
    assert "there is no folder" in missing.stderr
