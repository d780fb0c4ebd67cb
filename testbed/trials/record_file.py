"""The record file of an experiment's trials, OUT/EXPERIMENT/testbed_trial.parquet, for `firstflight load`."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from firstflight.system import files
from schemas import records
from testbed.trials import series, trial_row

KIND = trial_row.KIND
"""The record kind that this module writes."""


def path(out: Path, experiment: str) -> Path:
    """Return the path of the record file."""
    return out / experiment / f"{KIND}.parquet"


def write(out: Path, experiment: str) -> Path:
    """Write the rows of all blocks below OUT to a single file and return the path.

    InputError if there are no rows, or a row does not fit the record kind (another firstflight version).
    """
    schema = records.load(KIND).arrow_schema()
    rows = series.rows(out, experiment)
    trial_row.check_version(out / experiment, rows)
    file = path(out, experiment)
    with files.explain_os_errors(file):
        part = file.with_name(f"{file.name}.part")
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), part, compression="zstd")
        part.rename(file)
    return file
