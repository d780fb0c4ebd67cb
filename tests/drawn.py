"""Samples costly parameters and modules of tests: a few in each run, all in `make test-long`.

Each kill at a certain time costs a whole campaign, and the cases differ little. Each run samples other cases,
with a seed that its summary prints. `FIRSTFLIGHT_TEST_SEED=SEED make test` repeats a sample.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterable, Sequence
from typing import TypeVar

import pytest

SEED = "FIRSTFLIGHT_TEST_SEED"
ALL = "FIRSTFLIGHT_TEST_ALL"
T = TypeVar("T")


def ensure_seed() -> None:
    """Choose the run's seed unless the environment has one. Processes that run tests inherit it."""
    os.environ.setdefault(SEED, str(random.SystemRandom().randrange(10**6)))


def are_all() -> bool:
    """Return whether this run uses all parameters."""
    return os.environ.get(ALL, "") not in ("", "0")


def few(name: str, values: Iterable[T], count: int) -> list[T]:
    """Return a sample of `count` values for the test `name`, in order; all values in `make test-long`."""
    everything = list(values)
    if are_all() or count >= len(everything):
        return everything
    chosen = generator(name).sample(range(len(everything)), count)
    return [everything[n] for n in sorted(chosen)]


def rest(name: str, values: Iterable[T], count: int) -> list[T]:
    """Return the values that are not in the sample of `few`; none in `make test-long`."""
    everything = list(values)
    chosen = few(name, everything, count)
    return [value for value in everything if value not in chosen]


def generator(name: str) -> random.Random:
    """Return a generator of random numbers for the test `name` in this run."""
    return random.Random(f"{os.environ.get(SEED, '0')} {name}")


def parametrize(names: str, values: Iterable[object], count: int) -> pytest.MarkDecorator:
    """Like pytest.mark.parametrize, with a sample of `count` values. Each case has the mark `drawn`."""
    cases = few(names, values, count)
    return pytest.mark.parametrize(names, [_marked(case) for case in cases])


def _marked(case: object) -> object:
    values: Sequence[object] = case if isinstance(case, tuple) else (case,)
    return pytest.param(*values, marks=pytest.mark.drawn)
