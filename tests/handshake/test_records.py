"""Joining the segments of the handshake engine: each target, certificate and response once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from firstflight import settings
from firstflight.as_map import CDN_MAP_FILE, RIB_FILE, Mapper
from firstflight.errors import FirstflightError
from firstflight.layout import StageKey
from firstflight.run.accounting import NOT_SENT
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.system import files
from scanner.driver import choose
from scanner.handshake import records as joined
from scanner.handshake import sides, totals
from schemas import records
from tests import minimal
from tests.engines import record_rows

SECOND = 10**9
TARGETS = 4
# A response that was recorded before a kill, of a connection that was made again.
STALE = 5 * SECOND


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("FIRSTFLIGHT_RUNS", str(tmp_path / "runs"))
    path = minimal.write(tmp_path)
    made = Run.create(*settings.load(path))
    made.layout.as_data.mkdir(parents=True)
    (made.layout.as_data / RIB_FILE).write_text("198.18.48.0/24\t54113\n")
    (made.layout.as_data / CDN_MAP_FILE).write_text("[cdn]\nFastly = [54113]\n")
    return made


@pytest.fixture
def key(run: Run) -> StageKey:
    return run.key("here", 1)


def plan() -> pa.Table:
    rows = [
        {"target": 2 + n, "domain": f"n{n}.test", "ip": f"198.18.48.{n}", "list_id": "L", "rank": n + 1}
        | {"address_rank": 0, "resolver": "192.0.2.53"}
        for n in range(TARGETS)
    ]
    return pa.Table.from_pylist(rows, schema=choose.PLAN)


def connection(n: int, outcome: str = "done", sent_at: int | None = None) -> dict[str, Any]:
    sent_at = (n + 1) * SECOND if sent_at is None else sent_at
    sent = outcome not in NOT_SENT
    numbers = {c.name: 0 for c in records.load("quic_handshake").columns if c.type.startswith("uint")}
    return {
        **numbers,
        "target": 2 + n,
        "domain": f"n{n}.test",
        "ip": f"198.18.48.{n}",
        "port": 443,
        "outcome": outcome,
        "sent_at": sent_at if sent else None,
        "retry": False,
        "hello_retry": False,
        "cdn_by_header": "Others",
        "ech_retry_config_ids": [],
        "ech_retry_public_names": [],
    }


def response(n: int, sent_at: int | None = None) -> dict[str, Any]:
    keys = ("domain", "ip", "port", "sent_at")
    row = {name: connection(n, sent_at=sent_at)[name] for name in keys}
    return {**row, "headers": "[]", "header_bytes": 0, "goaway": False}


def certificate(digest: str, position: int = 0) -> dict[str, Any]:
    names = ("subject", "issuer", "sans", "serial", "key_algorithm", "signature_algorithm")
    return {
        "sha256": digest * 32,
        "position": position,
        "is_ca": False,
        "der_bytes": 9,
        **dict.fromkeys(names, ""),
    }


def segments(folder: Path, kind: str, parts: list[list[dict[str, Any]]]) -> None:
    """Write segments as the engine does."""
    folder = folder / "segments" / ("" if kind == "quic_handshake" else kind)
    folder.mkdir(parents=True, exist_ok=True)
    columns = [c for c in records.load(kind).columns if c.source == "handshake"]
    fields = [pa.field(c.name, c.segment_type(), c.nullable) for c in columns]
    if kind == "quic_handshake":
        fields.insert(0, pa.field("target", pa.uint32(), nullable=False))
    for number, rows in enumerate(parts, start=1):
        table = pa.Table.from_pylist(rows, schema=pa.schema(fields))
        path = str(folder / f"seg-{number:06}.arrow")
        with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)


def summary(folder: Path, **changes: Any) -> None:
    facts: dict[str, Any] = dict.fromkeys(joined.FACTS) | {"alpn": ["h3"], "versions": ["0x00000001"]}
    files.write_json(
        folder / "summary.json",
        {**facts, "rejected": 0, "missing_tx_stamps": 0, "missing_rx_stamps": 0, **changes},
    )


def written(run: Run, key: StageKey, *, stopped: bool = False) -> StageReport:
    with run.stage("handshake", key) as report:
        mapper = Mapper(run.layout.as_data)
        joined.write(run, key, plan(), "ruleset", report, mapper, stopped)
    return report


def table(run: Run, key: StageKey, kind: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = record_rows.read(run.layout.handshakes(key, kind))
    return rows


@pytest.fixture
def folder(run: Run, key: StageKey) -> Iterator[Path]:
    """The output of an engine that was killed once and restarted."""
    folder = run.layout.stage("handshake", key)
    second = [connection(2, "timeout"), connection(1, "blocked")]
    segments(folder, "quic_handshake", [[connection(3), connection(0)], second])
    segments(folder, "certificate", [[certificate("aa"), certificate("cc", 1)], [certificate("aa", 1)], []])
    duplicates = [response(0, STALE), response(3), response(3)]
    segments(folder, "http3_response", [duplicates, [response(3), response(0)]])
    summary(folder)
    yield folder


@pytest.mark.usefixtures("folder")
def test_every_target_is_a_row_with_its_provenance(run: Run, key: StageKey) -> None:
    report = written(run, key)
    rows = table(run, key, "quic_handshake")
    assert [(row["domain"], row["outcome"]) for row in rows] == [
        ("n0.test", "done"),
        ("n1.test", "blocked"),
        ("n2.test", "timeout"),
        ("n3.test", "done"),
    ]
    for number, row in enumerate(rows, start=1):
        assert (row["run"], row["vantage"], row["repetition"]) == (run.id, "here", 1)
        assert (row["list_id"], row["rank"], row["resolver"]) == ("L", number, "192.0.2.53")
        assert (row["asn"], row["cdn"], row["cdn_by_asn"]) == (54113, "Fastly", "Fastly")
        assert (row["cdn_by_cname"], row["cdn_by_header"], row["cdn_by_certificate"]) == (
            None,
            "Others",
            None,
        )
        assert (row["ruleset"], row["capture_file"]) == ("ruleset", None)
    assert report.counts == {"sent": 3, "blocked": 1, "done": 2, "timeout": 1}
    assert (report.rows_out, report.facts["certificate"], report.facts["http3_response"]) == (4, 2, 2)
    assert len(report.outputs) == 3
    assert totals.count(run, report) == {
        "handshakes": 4,
        "handshakes_sent": 3,
        "handshakes_blocked": 1,
        "handshakes_done": 2,
        "handshakes_timeout": 1,
    }


@pytest.mark.usefixtures("folder")
def test_certificates_and_responses_are_stored_once(run: Run, key: StageKey) -> None:
    written(run, key)
    certificates = table(run, key, "certificate")
    assert [(row["sha256"][:2], row["position"], row["run"]) for row in certificates] == [
        ("aa", 0, run.id),
        ("cc", 1, run.id),
    ]
    responses = table(run, key, "http3_response")
    assert [(row["domain"], row["sent_at"]) for row in responses] == [
        ("n3.test", 4 * SECOND),
        ("n0.test", SECOND),
    ]


def test_rejected_lines_are_counted_and_lost_ones_are_a_fault(run: Run, key: StageKey, folder: Path) -> None:
    (folder / "segments" / "seg-000002.arrow").unlink()
    summary(folder, rejected=2)
    report = written(run, key)
    assert [line.line for line in report.rejected] == [3, 4]
    summary(folder, rejected=1)
    with pytest.raises(FirstflightError, match="4 targets, 2 of them have a row"):
        written(run, key)


def test_a_stopped_stage_writes_what_it_has(run: Run, key: StageKey, folder: Path) -> None:
    (folder / "segments" / "seg-000002.arrow").unlink()
    report = written(run, key, stopped=True)
    assert (report.rows_out, report.facts["not_connected"]) == (2, 2)
    (folder / "summary.json").unlink()
    run.layout.handshakes(key).unlink()
    assert written(run, key, stopped=True).rows_out is None
    assert not run.layout.handshakes(key).exists()


def test_nothing_drawn_is_three_empty_files(run: Run, key: StageKey) -> None:
    with run.stage("handshake", key) as report:
        joined.write(
            run, key, plan().slice(0, 0), "ruleset", report, Mapper(run.layout.as_data), stopped=False
        )
    assert [table(run, key, kind) for kind in sides.KINDS] == [[], [], []]
    assert totals.count(run, report) == {"handshakes": 0, "handshakes_sent": 0}


def test_a_report_that_differs_from_the_file_is_a_fault(run: Run, key: StageKey, folder: Path) -> None:
    report = written(run, key)
    pq.write_table(pq.read_table(run.layout.handshakes(key)).slice(1), run.layout.handshakes(key))
    with pytest.raises(FirstflightError, match="does not match the stage's report"):
        totals.count(run, report)
    assert folder.is_dir()
