"""Pages for human verification, by status and header fields."""

from __future__ import annotations

import pytest

from firstflight.cdn import challenge

CLOUDFLARE = {"cf-mitigated": "challenge"}


@pytest.mark.parametrize(
    ("status", "headers", "expected"),
    [
        (403, CLOUDFLARE, "cf-mitigated: challenge"),
        (503, CLOUDFLARE, "cf-mitigated: challenge"),
        (403, {"cf-mitigated": " Challenge "}, "cf-mitigated: challenge"),
        (202, {"x-amzn-waf-action": "challenge"}, "x-amzn-waf-action: challenge"),
        (405, {"x-amzn-waf-action": "captcha"}, "x-amzn-waf-action: captcha"),
        (429, {"x-vercel-mitigated": "challenge"}, "x-vercel-mitigated: challenge"),
        # The content arrived.
        (200, CLOUDFLARE, None),
        (206, CLOUDFLARE, None),
        # Refused for good, or another firewall: an ordinary error.
        (403, {"x-vercel-mitigated": "deny"}, None),
        (403, {"cf-mitigated": ""}, None),
        (403, {"server": "cloudflare"}, None),
        (403, {}, None),
        (None, CLOUDFLARE, None),
    ],
)
def test_a_challenge(status: int | None, headers: dict[str, str], expected: str | None) -> None:
    assert challenge.of(status, headers) == expected
