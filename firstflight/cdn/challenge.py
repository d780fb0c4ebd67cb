"""Recognises pages for human verification (challenges) by the header fields of the response.

A firewall sends such a page in place of the requested one, to find out whether a browser with a person asks.
A program without a browser cannot pass it. Each field has a source:

- cf-mitigated: Cloudflare, "Detect a Challenge Page response" (developers.cloudflare.com). All its challenge
  pages have the field with the value `challenge`; the status is 403, and was 503 for older pages.
- x-amzn-waf-action: AWS WAF Developer Guide, "CAPTCHA and Challenge action behavior" (docs.aws.amazon.com):
  `challenge` with status 202, `captcha` with status 405.
- x-vercel-mitigated: Vercel's firewall sends `challenge` with status 429 or 403. Its documentation does not
  list the field; operators of clients describe it (www.urlcheckr.app, "Why is my check blocked by Vercel
  Firewall?").
"""

from __future__ import annotations

from collections.abc import Mapping

_MARKS: Mapping[str, frozenset[str]] = {
    "cf-mitigated": frozenset({"challenge"}),
    "x-amzn-waf-action": frozenset({"challenge", "captcha"}),
    "x-vercel-mitigated": frozenset({"challenge"}),
}
HEADERS = frozenset(_MARKS)
"""The names of the fields, in lower case."""

_CONTENT = (200, 206)


def of(status: int | None, headers: Mapping[str, str]) -> str | None:
    """Return the field of a challenge as `name: value`; `None` if the response is not a challenge.

    `headers`: names in lower case. A response with status 200 or 206 has the requested content, whatever its
    fields say. `status` is `None` without a response.
    """
    if status is None or status in _CONTENT:
        return None
    for name, values in _MARKS.items():
        value = headers.get(name, "").strip().lower()
        if value in values:
            return f"{name}: {value}"
    return None
