"""The dissect stage: turns the captures of a probe stage into quic_connection.parquet."""

from __future__ import annotations

import math
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from firstflight import capture
from firstflight.errors import InputError, Interrupted
from firstflight.layout import StageKey
from firstflight.run.report import StageReport
from firstflight.run.run import Run
from firstflight.settings import Settings
from firstflight.system import binaries, children, files
from schemas import records


def stage(run: Run, key: StageKey) -> None:
    """Dissect all captures of `key` into quic_connection.parquet (docs/architecture.md).

    InputError if there is no capture, if one is missing (nothing is written then), or if one is damaged (the
    connections before that position are written).
    """
    with run.stage("dissect", key) as report:
        captures = _captures(run, key)
        out = run.layout.quic_connection(key)
        with files.explain_os_errors(out):
            out.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=out.parent, prefix="native.") as folder:
                broken = _dissect(run.settings, captures, Path(folder))
                found = pq.ParquetFile(Path(folder) / "quic_connection.parquet").read()
        names = {str(path): run.layout.name_of(path) for path in captures}
        table = with_provenance(found, key, report.tool_version, names)
        with files.replacing(out) as temporary:
            pq.write_table(table, temporary, compression="zstd")
        taken = [record.captured for record in capture.records(run.layout.stage("capture", key))]
        known = [packets for packets in taken if packets is not None]
        report.rows_in = sum(known) if len(known) == len(taken) else None
        _account(run, report, table, out)
        if broken:
            raise InputError(f"{broken}; the connections before that position are in {out}")


def with_provenance(found: pa.Table, key: StageKey, tool_version: str, names: dict[str, str]) -> pa.Table:
    """Return the dissector's rows with provenance; `names` = capture path -> name in records."""
    schema = records.load("quic_connection").arrow_schema()
    common = {**key.columns(), "tool_version": tool_version}
    columns = []
    for field in schema:
        if field.name in common:
            columns.append(pa.repeat(pa.scalar(common[field.name], field.type), found.num_rows))
        elif field.name == "source_file":
            columns.append(pa.array([names[path] for path in found["source_file"].to_pylist()], field.type))
        else:
            columns.append(found[field.name].cast(field.type))
    return pa.table(columns, schema=schema)


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


def _dissect(settings: Settings, captures: list[Path], folder: Path) -> str | None:
    """Run the dissector with output to `folder`. Returns its message about a damaged capture, or None."""
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
        ("--quic-port", probe.port),
        ("--answer-window-ms", round(probe.timeout_s * 1000)),
        ("--settle-ms", probe.settle_ms),
        ("--idle-s", idle_s),
        ("--max-connections", live),
    ]
    argv = [str(binaries.find("firstflight-dissect")), *map(str, captures)]
    for option, value in options:
        argv += [option, str(value)]
    process = children.start(argv, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
    try:
        _, messages = process.communicate()
    except KeyboardInterrupt as error:
        children.stop(process)
        raise Interrupted("stopped by a signal; the stage can be run again") from error
    broken = binaries.unreadable(process.returncode, messages)
    return broken[-1] if broken else None


def _account(run: Run, report: StageReport, table: pa.Table, out: Path) -> None:
    report.rows_out = table.num_rows
    report.counts = dict(sorted(Counter(table["first_answer"].to_pylist()).items()))
    undecrypted = table.num_rows - sum(hello is not None for hello in table["hello_time_ns"].to_pylist())
    if undecrypted:
        report.warnings.append(f"{undecrypted} connections without a ClientHello that can be decrypted")
    run.add_output(report, out)
