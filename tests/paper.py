"""Numbers from the paper, for comparison."""

from __future__ import annotations

# Table 1: the largest share of instant ACKs, in percent.
TABLE_1 = {
    "Akamai": 32.2,
    "Amazon": 41.0,
    "Cloudflare": 99.9,
    "Fastly": 0.0,
    "Google": 11.5,
    "Meta": 0.0,
    "Microsoft": 0.0,
    "Others": 21.5,
}
