"""Pages that refuse a request, complete with the headers of every answer."""

from __future__ import annotations

from starlette.responses import HTMLResponse, Response

from reports.dashboard import html

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
"""Headers of every answer: nothing from other hosts, no script or style in a page, no frame."""


def refusal(status: int, sentence: str, retry_after_s: int | None = None) -> Response:
    """Return a page that explains why there is no answer; caches must not keep it."""
    headers = HEADERS | {"Cache-Control": "no-store"}
    if retry_after_s is not None:
        headers["Retry-After"] = str(retry_after_s)
    return HTMLResponse(html.render("error.html", status=status, sentence=sentence), status, headers)
