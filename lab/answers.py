"""Draws what each endpoint answers to HTTP/3 requests, from the behaviour file's declarations.

Each name draws by itself, so that a change of one entry leaves the others as they are.
"""

from __future__ import annotations

import random
from collections.abc import Sequence

from lab.behaviour import AnswerEntry, FieldsEntry
from lab.model import Answer

PLAIN = AnswerEntry(status=200)
# Fields by which an edge says where it is; the handshake stage reads them into `edge_location`.
PLACE_FIELDS = ("cf-ray", "x-amz-cf-pop", "x-served-by")


def choose(declared: Sequence[AnswerEntry], seed: int, domain: str) -> AnswerEntry:
    """Return the answer that a name gives: each declared one by its share, otherwise a plain 200."""
    left = random.Random(f"{seed}/{domain}/answer").random()
    for answer in declared:
        left -= answer.share
        if left < 0:
            return answer
    return PLAIN


def answer(entry: AnswerEntry, fields: FieldsEntry, seed: int, domain: str, ip: str) -> Answer:
    """Return an endpoint's answer with its fields; two names at one address are at one place."""
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

    every = (*fields.headers, *entry.headers)
    named = any(name in PLACE_FIELDS and "{place}" in value for name, value in every)
    return Answer(
        status=entry.status,
        headers=tuple((name, filled(value)) for name, value in every),
        delay_us=None if entry.delay_ms is None else round(entry.delay_ms * 1000),
        place=place[:3] if named else None,  # the airport: CloudFront adds the location's number
    )
