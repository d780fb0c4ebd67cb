"""Serves the static reports of runs, which are separate pages next to the folder of runs."""

from __future__ import annotations

import os
from pathlib import Path

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response

from firstflight.run.run import RUN_ID, runs_root

VARIABLE = "FIRSTFLIGHT_REPORTS"
"""The folder with a folder per run; by default `reports` next to the folder of runs."""
POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; frame-ancestors 'none'"
)
"""A report is a single file that includes its style sheet, without scripts."""


def address(run: str) -> str:
    """Return the address for a run's report; empty if it does not exist."""
    return f"/reports/{run}" if RUN_ID.fullmatch(run) and _file(run).is_file() else ""


async def page(request: Request) -> Response:
    """`/reports/RUN`: a run's report, unchanged. HTTPException if it does not exist."""
    run = request.path_params["run"]
    if not address(run):
        raise HTTPException(404, f"there is no report of a run {run!r}: `firstflight report` makes it")
    return FileResponse(_file(run), media_type="text/html", headers={"Content-Security-Policy": POLICY})


def _file(run: str) -> Path:
    folder = os.environ.get(VARIABLE) or runs_root().parent / "reports"
    return Path(folder) / run / "index.html"
