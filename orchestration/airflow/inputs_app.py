"""The centre's HTTP interface for run inputs; the plugin mounts it on Airflow's api-server."""

from __future__ import annotations

from airflow.configuration import conf
from fastapi import FastAPI, Header, Query
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, Response

from firstflight.errors import FirstflightError
from firstflight.run.run import Run, runs_root
from orchestration.site import centre_token, inputs, optout
from orchestration.site.centre_client import GOES_ON, STOPPED

app = FastAPI(title="firstflight inputs", docs_url=None, redoc_url=None, openapi_url=None)


@app.get("/runs/{run}/inputs", response_class=Response)
def listed(run: str, authorization: str = Header("")) -> Response:
    """Return inputs.json of the run."""
    return _offer(run, None, authorization)


@app.get("/runs/{run}/inputs/{name:path}", response_class=Response)
def file(run: str, name: str, authorization: str = Header("")) -> Response:
    """Return a file that inputs.json lists."""
    return _offer(run, name, authorization)


@app.get("/runs/{run}/stop", response_class=Response)
def stopped(run: str, authorization: str = Header("")) -> Response:
    """Return whether the run's stop file exists at the centre."""
    refused = _refused(run, authorization)
    if refused is not None:
        return refused
    if inputs.published(run) is None:
        return PlainTextResponse(f"the centre offers no run {run}", status_code=404)
    return PlainTextResponse(STOPPED if Run(runs_root() / run).layout.stop_file.exists() else GOES_ON)


@app.get("/optout", response_class=Response)
def opted_out(nonce: str = Query("", max_length=64), authorization: str = Header("")) -> Response:
    """Return the site's opt-out list as of now; 503 with one sentence if it cannot be read."""
    refused = _refused(centre_token.OPTOUT, authorization)
    if refused is not None:
        return refused
    try:
        answer = {"nonce": nonce, "entries": optout.offered()}
    except FirstflightError as error:
        return PlainTextResponse(str(error), status_code=503)
    return JSONResponse(answer, headers={"Cache-Control": "no-store"})


def _offer(run: str, name: str | None, authorization: str) -> Response:
    """Return the file; 403 for a wrong token and 404 for a file that is not offered, with one sentence."""
    refused = _refused(run, authorization)
    if refused is not None:
        return refused
    path = inputs.published(run, name)
    if path is None:
        description = f"file {name} of run {run}" if name else f"run {run}"
        return PlainTextResponse(f"the centre offers no {description}", status_code=404)
    return FileResponse(path)


def _refused(run: str, authorization: str) -> Response | None:
    """Return the response to a wrong token; `None` if the token is valid."""
    secret = str(conf.get("api_auth", "jwt_secret"))
    try:
        centre_token.verify(secret, authorization.removeprefix("Bearer ").strip(), run)
    except centre_token.TokenRefused as error:
        return PlainTextResponse(str(error), status_code=403)
    return None
