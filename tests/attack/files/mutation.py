"""Broken copies of good inputs, the same ones every time: bytes flipped, removed, doubled, inserted."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

# Inputs that are hard to parse: limits of ranges, separators, escapes, numbers too large, invalid text.
WORDS = (
    b"\x00",
    b"\xff" * 4,
    b"\x7f\xff\xff\xff",
    b"\x80\x00\x00\x00",
    b"\n",
    b"\r\n",
    b"|",
    b",",
    b'"',
    b"{",
    b"}",
    b"[" * 100,
    b"../",
    b"-1",
    b"9" * 30,
    b"1e999",
    b"NaN",
    b"null",
    b"\\u0000",
    b"\xed\xa0\x80",
    b"\xe2\x80\xae",
    b"\x1b[2J",
    b"# format:",
)


def mutations(seed: int, samples: Sequence[bytes], count: int) -> Iterator[bytes]:
    """Yield `count` broken inputs, each one of `samples` with one to eight changes, and seven random ones."""
    draw = random.Random(seed)
    for number in range(count):
        content = bytearray(samples[number % len(samples)])
        for _ in range(draw.randint(1, 8)):
            _change(draw, content, samples)
        yield bytes(content)
    for length in (0, 1, 2, 3, 10, 100, 10_000):
        yield draw.randbytes(length)


def _change(draw: random.Random, content: bytearray, samples: Sequence[bytes]) -> None:
    at = draw.randint(0, len(content))
    length = min(draw.choice((1, 2, 4, 16, 200)), len(content) - at)
    match draw.randint(0, 5):
        case 0 if length:
            content[at] ^= 1 << draw.randint(0, 7)
        case 1:
            del content[at : at + length]
        case 2:
            content[at:at] = content[at : at + length] * draw.randint(1, 50)
        case 3:
            content[at : at + length] = draw.choice(WORDS)
        case 4:
            other = draw.choice(samples)
            begin = draw.randint(0, len(other))
            content[at:at] = other[begin : begin + 200]
        case _:
            del content[at:]
