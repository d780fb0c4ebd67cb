"""Files that pages load: style sheets, the charts' script and library. No other hosts are involved."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from reports.dashboard import html

_TYPES = {"dashboard.js": "text/javascript", "uplot.js": "text/javascript", "uplot.css": "text/css"}


def routes() -> list[Route]:
    """Return a route for each file."""
    return [Route("/dashboard.css", _sheet), *(Route(f"/{name}", _file) for name in _TYPES)]


async def _sheet(request: Request) -> Response:  # noqa: ARG001
    return Response(html.sheet(), media_type="text/css")


async def _file(request: Request) -> Response:
    name = request.url.path[1:]
    return FileResponse(html.STATIC / name, media_type=_TYPES[name])
