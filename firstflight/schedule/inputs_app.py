"""The centre's HTTP interface for the inputs of runs; the plugin mounts it on Airflow's api-server."""

from __future__ import annotations

from airflow.configuration import conf
from fastapi import FastAPI, Header
from fastapi.responses import FileResponse, PlainTextResponse, Response

from firstflight.schedule import centre_token, inputs

app = FastAPI(title="firstflight inputs", docs_url=None, redoc_url=None, openapi_url=None)


@app.get("/runs/{run}/inputs", response_class=Response)
def listed(run: str, authorization: str = Header("")) -> Response:
    """inputs.json of the run."""
    return _offer(run, None, authorization)


@app.get("/runs/{run}/inputs/{name:path}", response_class=Response)
def file(run: str, name: str, authorization: str = Header("")) -> Response:
    """A file that inputs.json lists."""
    return _offer(run, name, authorization)


def _offer(run: str, name: str | None, authorization: str) -> Response:
    """The file; a wrong token gets 403, what is not offered 404, each with one sentence."""
    secret = str(conf.get("api_auth", "jwt_secret"))
    try:
        centre_token.verify(secret, authorization.removeprefix("Bearer ").strip(), run)
    except centre_token.Refused as error:
        return PlainTextResponse(str(error), status_code=403)
    path = inputs.published(run, name)
    if path is None:
        what = f"file {name} of run {run}" if name else f"run {run}"
        return PlainTextResponse(f"the centre offers no {what}", status_code=404)
    return FileResponse(path)
