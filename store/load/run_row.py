"""The row of a run: its manifest, settings and state."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from firstflight.errors import InputError
from firstflight.run.run import Run
from store import Store
from store.sql import literal

# This key permits forged answers to a run that still probes, so it never leaves the run's folder.
_KEPT_OUT = ("cid_key",)


def load(store: Store, run: Run) -> None:
    """Write the run's row to an open store, replacing the old one; do nothing if they are equal.

    InputError if the manifest lacks its time or its state.
    """
    row = _row(run)
    table = f"{store.dialect.database}.run"
    texts = [name for name in row if name != "started_at"]
    store.catch_up("run")
    before = store.rows(f"SELECT {', '.join(texts)} FROM {table} WHERE run = {{run:String}}", {"run": run.id})
    if before == [{name: row[name] for name in texts}]:
        return
    if before:
        store.execute(f"ALTER TABLE {table} DELETE WHERE run = {literal(run.id)}")
    batch = pa.table({name: pa.array([value]) for name, value in row.items()})
    index = batch.schema.get_field_index("started_at")
    instant = batch.column(index).cast(pa.timestamp("ns", "UTC"))
    store.insert("run", batch.set_column(index, "started_at", instant))


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
