"""A run's row: its manifest, settings and state."""

from __future__ import annotations

import json
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import pyarrow as pa

from firstflight.errors import InputError
from firstflight.run.run import Run
from store import Store
from store.load import load_log, origin
from store.sql import literal

# This key permits forged answers to a run that still probes, so it never leaves the run's folder.
_KEPT_OUT = ("cid_key",)


class OtherOrigin(InputError):
    """A manifest that names a run which the store has from another origin."""


def load(store: Store, run: Run, *, replace: bool = False) -> None:
    """Write the run's row to an open store, replacing the old one; do nothing if they are equal.

    InputError if the manifest lacks its time or its state. OtherOrigin if the store has the run from
    elsewhere (store/load/origin.py), unless `replace`.
    """
    row = _row(run)
    table = f"{store.dialect.database}.run"
    texts = [name for name in row if name != "started_at"]
    store.catch_up("run")
    before = store.rows(f"SELECT {', '.join(texts)} FROM {table} WHERE run = {{run:String}}", {"run": run.id})
    logged = _logged(store, run)
    run_origin = origin.of_run(run)
    is_equal = before == [{name: row[name] for name in texts}]
    if is_equal and (logged["origin"] == run_origin.text or not run_origin.is_site):
        return
    if not (replace or is_equal):
        if before and not run_origin.may_replace(logged["origin"], str(before[0]["source_file"])):
            raise _other_origin(run, str(before[0]["source_file"]))
        for other in load_log.of_site(store, [run.id], run_origin.text):
            raise _other_origin(run, str(other["source_file"]))
    # Logged first: if this process is killed in between, every origin could replace a row without an origin.
    _log(store, run, row, run_origin.text, int(logged["version"]) + 1)
    if is_equal:
        return
    if before:
        store.execute(f"ALTER TABLE {table} DELETE WHERE run = {literal(run.id)}")
    batch = pa.table({name: pa.array([value]) for name, value in row.items()})
    index = batch.schema.get_field_index("started_at")
    instant = batch.column(index).cast(pa.timestamp("ns", "UTC"))
    store.insert("run", batch.set_column(index, "started_at", instant))


def _other_origin(run: Run, source_file: str) -> OtherOrigin:
    return OtherOrigin(
        f"{run.layout.manifest}: run {run.id} is in the store from another origin ({source_file}): give "
        "--replace to replace it with this folder"
    )


def _logged(store: Store, run: Run) -> dict[str, Any]:
    """Return version and origin of the run's row in the load log; 0 and empty without such a row."""
    store.catch_up("load_file")
    rows = store.rows(
        f"SELECT version, origin FROM {load_log.table(store)} FINAL "
        "WHERE kind = 'run' AND unit = {unit:String}",
        {"unit": load_log.unit_text([run.id])},
    )
    return rows[0] if rows else {"version": 0, "origin": ""}


def _log(store: Store, run: Run, row: dict[str, Any], text: str, version: int) -> None:
    values = {
        "kind": "run",
        "unit": load_log.unit_text([run.id]),
        "run": run.id,
        "source_file": row["source_file"],
        "sha256": sha256(row["manifest"].encode()).hexdigest(),
        "origin": text,
        "rows": 1,
        "first_at": None,
        "last_at": None,
        "state": "loaded",
        "version": version,
    }
    load_log.enter(store, values)


def _row(run: Run) -> dict[str, Any]:
    manifest = run.manifest
    shown = {key: value for key, value in manifest.items() if key not in _KEPT_OUT}
    try:
        started, state = datetime.fromisoformat(str(manifest["started_at"])), str(manifest["state"])
    except (KeyError, ValueError) as error:
        raise InputError(
            f"{run.layout.manifest}: `started_at` or `state` is missing or wrong ({error}): give the run its "
            "own manifest"
        ) from error
    return {
        "run": run.id,
        "name": str(manifest.get("name", "")),
        "state": state,
        "started_at": int(started.timestamp() * 1_000_000) * 1000,
        "tool_version": str(manifest.get("tool_version", "")),
        "manifest": json.dumps(shown, ensure_ascii=False, sort_keys=True),
        "config": _text(run.layout.config),
        "settings": _text(run.layout.settings),
        "source_file": run.layout.name_of(run.layout.manifest),
    }


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.is_file() else ""
