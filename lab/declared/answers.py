"""Draws the answer of each endpoint to HTTP/3 requests, from the declarations in the behaviour file.

Each name has its own random numbers, so that changing one entry does not change the others.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from lab.declared.behaviour import AnswerEntry, FieldsEntry
from lab.declared.model import HttpAnswer

PLAIN = AnswerEntry(status=200)
# Fields that identify an edge's location. The handshake stage reads them into `edge_location`.
PLACE_FIELDS = ("cf-ray", "x-amz-cf-pop", "x-served-by")


def choose(declared: Sequence[AnswerEntry], seed: int, domain: str) -> AnswerEntry:
    """Return a name's answer: each declared answer with the probability `share`, else a plain 200."""
    remaining = random.Random(f"{seed}/{domain}/answer").random()
    for answer in declared:
        remaining -= answer.share
        if remaining < 0:
            return answer
    return PLAIN


def answer(entry: AnswerEntry, fields: FieldsEntry, seed: int, domain: str, ip: str) -> HttpAnswer:
    """Return an endpoint's answer with its fields. All names at one address have the same location."""
    rng = random.Random(f"{seed}/{domain}/{ip}/fields")
    place = random.Random(f"{seed}/{ip}/place").choice(fields.places)

    def filled(value: str) -> str:
        values = {
            "{domain}": domain,
            "{place}": place,
            "{hex}": f"{rng.getrandbits(64):016x}",
            "{age}": str(rng.randrange(1, 86_400)),
        }
        for mark, text in values.items():
            value = value.replace(mark, text)
        return value

    headers = (*fields.headers, *entry.headers)
    names_place = any(name in PLACE_FIELDS and "{place}" in value for name, value in headers)
    return HttpAnswer(
        status=entry.status,
        headers=tuple((name, filled(value)) for name, value in headers),
        delay_us=None if entry.delay_ms is None else round(entry.delay_ms * 1000),
        place=place[:3] if names_place else None,  # the airport, without the number that CloudFront adds
    )
