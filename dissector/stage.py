"""The dissect stage: turns the captures of a probe stage into quic_connection.parquet."""

from __future__ import annotations

import json
import math
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from firstflight import capture
from firstflight.errors import InputError
from firstflight.layout import StageKey
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.system import binaries, children, files


def stage(run: Run, key: StageKey) -> None:
    """Dissect all captures of `key` into quic_connection.parquet (docs/architecture.md).

    InputError if there is no capture, if one is missing (nothing is written then), or if one is damaged (the
    connections before that position are written).
    """
    with run.stage("dissect", key) as report:
        captures = _captures(run, key)
        out = run.layout.quic_connection(key)
        stamps = {**key.columns(), "tool_version": report.tool_version}
        with files.explain_os_errors(out):
            out.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=out.parent, prefix="native.") as folder:
                broken = _dissect(run, captures, Path(folder), stamps)
                summary = json.loads((Path(folder) / "summary.json").read_text(encoding="utf-8"))
                (Path(folder) / out.name).replace(out)
        taken = [record.captured for record in capture.records(run.layout.stage("capture", key))]
        known = [packets for packets in taken if packets is not None]
        report.rows_in = sum(known) if len(known) == len(taken) else None
        _account(run, report, summary["quic_connection"], out)
        if broken:
            raise InputError(f"{broken}; the connections before that position are in {out}")


def _captures(run: Run, key: StageKey) -> list[Path]:
    folder = run.layout.stage("capture", key)
    taken = [folder / record.file for record in capture.records(folder)]
    present = [path for path in taken if path.is_file()]
    if not present:
        raise InputError(
            f"there is no capture in {folder}: run the probe stage of {key.vantage} with capture enabled"
        )
    # A killed stage leaves a `.part` file, which its next attempt renames.
    missing = [path.name for path in taken if path not in present and not capture.part_of(path).is_file()]
    if missing:
        # Otherwise the connections of the others would look complete.
        raise InputError(
            f"{', '.join(missing)} in {folder} is missing, which capture.json names: put it back, "
            "or remove its entry from capture.json"
        )
    return present


def _dissect(run: Run, captures: list[Path], folder: Path, stamps: dict[str, str | int]) -> str | None:
    """Run the dissector, which writes quic_connection.parquet and summary.json into `folder`.

    Each row holds `stamps` and the campaign's name of its capture. Returns the dissector's sentence about a
    capture that breaks off, or None.
    """
    settings = run.settings
    probe = settings.probe
    # A connection is kept as long as its probe's answer window. The table must hold all concurrent ones, so
    # that none is evicted earlier; each probe has up to `attempts` connections.
    idle_s = math.ceil(probe.timeout_s + probe.settle_ms / 1000) + 5
    rate = max(settings.rate_at(vantage) for vantage in settings.vantage)
    live = math.ceil(2 * rate * probe.attempts * idle_s)
    options: list[tuple[str, object]] = [
        ("--kind", "quic_connection"),
        ("--format", "parquet"),
        ("--out", folder),
        ("--summary", folder / "summary.json"),
        ("--quic-port", probe.port),
        ("--answer-window-ms", round(probe.timeout_s * 1000)),
        ("--settle-ms", probe.settle_ms),
        ("--idle-s", idle_s),
        ("--max-connections", live),
        *(("--source-name", run.layout.name_of(path)) for path in captures),
        *(("--stamp", f"{name}={value}") for name, value in stamps.items()),
    ]
    argv = [str(binaries.find("firstflight-dissect")), *map(str, captures)]
    for option, value in options:
        argv += [option, str(value)]
    process = children.start(argv, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    _, stderr = children.finished(process)
    broken = binaries.unreadable(process.returncode, stderr)
    return broken[-1] if broken else None


def _account(run: Run, report: StageReport, summary: dict[str, Any], out: Path) -> None:
    report.rows_out = summary["rows"]
    report.counts = dict(sorted(summary["first_answer"].items()))
    undecrypted = summary["without_client_hello"]
    if undecrypted:
        report.warnings.append(f"{undecrypted} connections without a ClientHello that can be decrypted")
    run.add_output(report, out)
